package gatewaytest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Echo is what an echo endpoint answers with: the request as it saw it.
type Echo struct {
	Endpoint string      `json:"endpoint"`
	Method   string      `json:"method"`
	Target   string      `json:"target"`
	Host     string      `json:"host"`
	Header   http.Header `json:"header"`
	Body     string      `json:"body"`
}

// NewEcho starts an HTTP service that answers with what it received, and
// returns its URL.
func NewEcho(t testing.TB, name string) string {
	t.Helper()
	return NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway gave the request up
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Endpoint", name)
		_ = json.NewEncoder(w).Encode(Echo{name, r.Method, r.RequestURI, r.Host, r.Header, string(body)})
	}))
}

// NewHTTP starts an HTTP service and returns its URL. Its requests are
// cancelled when the test ends.
func NewHTTP(t testing.TB, handler http.Handler) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewUnstartedServer(handler)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	t.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// Scripted is a TCP service whose connections are served by a script.
type Scripted struct {
	URL      string
	listener net.Listener
	mu       sync.Mutex
	received [][]byte
}

// NewScripted starts a TCP service; script serves each connection, which is
// closed when it returns. What it reads is kept for Received.
func NewScripted(t testing.TB, script func(conn net.Conn, in *bufio.Reader)) *Scripted {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Scripted{URL: "http://" + listener.Addr().String(), listener: listener}
	var running sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	running.Go(func() {
		for index := 0; ; index++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			s.mu.Lock()
			s.received = append(s.received, nil)
			s.mu.Unlock()
			running.Go(func() {
				script(conn, bufio.NewReader(&recorder{conn, s, index}))
				_ = conn.Close() // the peer may have been first
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for conn := range open {
			_ = conn.Close() // its script may have been first
		}
		mu.Unlock()
		running.Wait()
	})
	return s
}

// Received is what each connection has brought so far, in order of arrival.
func (s *Scripted) Received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]string, len(s.received))
	for i, data := range s.received {
		all[i] = string(data)
	}
	return all
}

// recorder keeps what is read.
type recorder struct {
	net.Conn
	s     *Scripted
	index int
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.s.mu.Lock()
	r.s.received[r.index] = append(r.s.received[r.index], p[:n]...)
	r.s.mu.Unlock()
	return n, err
}

// ReadHead reads a message head, its empty line included, and returns it.
func ReadHead(in *bufio.Reader) (string, error) {
	var head []byte
	for {
		line, err := in.ReadBytes('\n')
		head = append(head, line...)
		if err != nil || len(line) <= 2 {
			return string(head), err
		}
	}
}

// Refused is the URL of a port where nobody listens: connections are refused.
// The port is held, so that it stays so for the test.
func Refused(t testing.TB) string {
	t.Helper()
	return "http://" + HeldPort(t)
}

// HeldPort is the address of a port that is the test's alone. Connections are
// refused until a process that sets SO_REUSEPORT listens there.
func HeldPort(t testing.TB) string {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	address, ok := bound.(*unix.SockaddrInet4)
	if !ok {
		t.Fatalf("a port of an unexpected family: %T", bound)
	}
	return "127.0.0.1:" + strconv.Itoa(address.Port)
}

// NewGated starts an HTTP service whose answers wait until gate is closed. Each request
// that comes is told of.
func NewGated(t testing.TB) (url string, arrived, gate chan struct{}) {
	t.Helper()
	arrived, gate = make(chan struct{}, 16), make(chan struct{})
	url = NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-gate:
			_, _ = io.WriteString(w, "late")
		case <-r.Context().Done():
		}
	}))
	return url, arrived, gate
}

// Fetch sends a GET and returns the status and the whole body.
func Fetch(t testing.TB, client *http.Client, url string) (status int, body string) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
