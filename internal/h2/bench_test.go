package h2_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/h2"
)

// servers are this package and net/http's server, which is x/net's, for the same
// handler. They end with their listener.
func servers() map[string]func(net.Listener, http.Handler) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	buffers := h2.NewBuffers()
	return map[string]func(net.Listener, http.Handler){
		"h2": func(l net.Listener, h http.Handler) {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _ = h2.NewConn(c, h2.Options{Handler: h, Buffers: buffers}).Serve() }()
			}
		},
		"net-http": func(l net.Listener, h http.Handler) {
			s := &http.Server{Handler: h, Protocols: protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250}, ReadHeaderTimeout: patience}
			_ = s.Serve(l)
		},
	}
}

// benchmark runs requests of Go's own client, which takes most of the time, on one
// connection.
func benchmark(b *testing.B, parallel int, h http.HandlerFunc, do func(b *testing.B, client *http.Client, url string)) {
	b.Helper()
	for name, serve := range servers() {
		b.Run(name, func(b *testing.B) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer listener.Close()
			go serve(listener, h)
			client := goClient(b)
			b.ReportAllocs()
			b.SetParallelism(parallel)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					do(b, client, "http://"+listener.Addr().String())
				}
			})
		})
	}
}

func answer200(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{"256"}
	w.WriteHeader(200)
	_ = http.NewResponseController(w).Flush()
	_, _ = w.Write(make([]byte, 256))
}

func ask(b *testing.B, client *http.Client, url string) {
	b.Helper()
	response, err := client.Get(url)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

func BenchmarkSmall(b *testing.B)    { benchmark(b, 32, answer200, ask) }
func BenchmarkSmallOne(b *testing.B) { benchmark(b, 1, answer200, ask) }

func BenchmarkDownload(b *testing.B) {
	body := make([]byte, 4<<20)
	b.SetBytes(int64(len(body)))
	benchmark(b, 2, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }, ask)
}

func BenchmarkUpload(b *testing.B) {
	body := make([]byte, 4<<20)
	b.SetBytes(int64(len(body)))
	benchmark(b, 2, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, func(b *testing.B, client *http.Client, url string) {
		b.Helper()
		response, err := client.Post(url, "", bytes.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		_ = response.Body.Close()
	})
}

// BenchmarkServer measures the server alone: requests from memory, batches of ten.
func BenchmarkServer(b *testing.B) {
	for name, serve := range servers() {
		b.Run(name, func(b *testing.B) {
			near, far := net.Pipe()
			only := &once{conn: make(chan net.Conn, 1)}
			only.conn <- near
			done := make(chan struct{})
			go func() {
				defer close(done)
				serve(only, http.HandlerFunc(answer200))
			}()
			ended := make(chan struct{}, 100)
			go func() {
				framer := http2.NewFramer(nil, far)
				framer.SetReuseFrames()
				for {
					frame, err := framer.ReadFrame()
					if err != nil {
						return
					}
					if head := frame.Header(); head.Type == http2.FrameData && head.Flags.Has(http2.FlagDataEndStream) {
						ended <- struct{}{}
					}
				}
			}()
			var batch bytes.Buffer
			framer := http2.NewFramer(&batch, nil)
			batch.WriteString(http2.ClientPreface)
			_ = framer.WriteSettings()
			_ = framer.WriteSettingsAck()
			_ = framer.WriteWindowUpdate(0, 1<<30)
			c := &raw{}
			c.hpack = hpack.NewEncoder(&c.block)
			first := c.encode(get("user-agent: test", "accept: */*")...)
			second := c.encode(get("user-agent: test", "accept: */*")...)
			id := uint32(1)
			b.ReportAllocs()
			for b.Loop() {
				for range 10 {
					block := second
					if id == 1 {
						block = first
					}
					_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: true})
					id += 2
				}
				if _, err := far.Write(batch.Bytes()); err != nil {
					b.Fatal(err)
				}
				batch.Reset()
				for range 10 {
					<-ended
				}
			}
			_ = far.Close()
			close(only.conn)
			<-done
		})
	}
}

// once is a listener of one connection.
type once struct{ conn chan net.Conn }

func (o *once) Accept() (net.Conn, error) {
	if c, ok := <-o.conn; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.TCPAddr{} }
