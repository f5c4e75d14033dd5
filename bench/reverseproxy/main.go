// Command reverseproxy is what most gateways in Go are made of: the standard
// library's httputil.ReverseProxy, tuned as far as its documentation goes, doing
// the same job as the other proxies of the benchmark.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) != 3 && len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: reverseproxy LISTEN ENDPOINT [CERTIFICATE KEY]")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "reverseproxy:", err)
		os.Exit(1)
	}
}

// serve speaks HTTP/1.1 and HTTP/2; over TLS where there are files for it.
func serve(listen, endpoint string, files []string) error {
	speaks := &http.Protocols{}
	speaks.SetHTTP1(true)
	speaks.SetHTTP2(true)
	speaks.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols:         speaks,
		Addr:              listen,
		Handler:           newProxy(&url.URL{Scheme: "http", Host: endpoint}),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second,
	}
	stopped, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(stopped, func() { _ = server.Close() })
	listening := server.ListenAndServe
	if len(files) == 2 {
		listening = func() error { return server.ListenAndServeTLS(files[0], files[1]) }
	}
	if err := listening(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func newProxy(target *url.URL) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			client, _, err := net.SplitHostPort(r.In.RemoteAddr)
			if err == nil {
				r.Out.Header.Set("X-Real-Ip", client)
			}
			r.Out.Header.Add("Via", "1.1 reverseproxy")
			r.Out.Header.Set("X-Request-Id", newID())
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Add("Via", "1.1 reverseproxy")
			r.Header.Set("X-Request-Id", r.Request.Header.Get("X-Request-Id"))
			return nil
		},
		// The defaults keep two idle connections to an endpoint and ask it
		// for gzip: both would cost it most of its speed here.
		Transport: &http.Transport{
			MaxIdleConns:        0,
			MaxIdleConnsPerHost: 4096,
			IdleConnTimeout:     55 * time.Second,
			DisableCompression:  true,
		},
		BufferPool: &buffers{pool: sync.Pool{New: func() any { return new(make([]byte, 32<<10)) }}},
	}
}

// newID makes a UUID (version 4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// buffers keeps the memory that bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	got, ok := b.pool.Get().(*[]byte)
	if !ok {
		panic("BUG: the pool has something else")
	}
	return *got
}

func (b *buffers) Put(used []byte) { b.pool.Put(&used) }
