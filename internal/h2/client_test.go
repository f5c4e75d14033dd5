package h2_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"sluice/internal/certtest"
	"sluice/internal/h2"
	"sluice/internal/waittest"
)

// goClient is Go's own client, on cleartext.
func goClient(t testing.TB) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func content(size int) []byte {
	random := rand.NewChaCha8([32]byte{1})
	body := make([]byte, size)
	_, _ = random.Read(body)
	return body
}

func TestMessages(t *testing.T) {
	seen := make(chan *http.Request, 1)
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || local.String() != r.Host {
			t.Errorf("the local address is %v", local)
		}
		seen <- r
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(202)
		_, _ = w.Write(body)
		w.Header().Set("X-Sum", "s")
	}), nil)
	client := goClient(t)
	body := io.MultiReader(strings.NewReader("some "), strings.NewReader("content"))
	request, err := http.NewRequest(http.MethodPost, "http://"+s.address+"/a%2Fb/c?d=e&f", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"X-One": {"1", "2"}, "Cookie": {"a=1; b=2"}, "User-Agent": {"test"}}
	request.Trailer = http.Header{"X-Check": {"sum"}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil || string(got) != "some content" || response.StatusCode != 202 || response.Trailer.Get("X-Sum") != "s" {
		t.Errorf("%d %q %v, trailers %v", response.StatusCode, got, err, response.Trailer)
	}
	r := <-seen
	if r.Method != "POST" || r.RequestURI != "/a%2Fb/c?d=e&f" || r.URL.Path != "/a/b/c" || r.URL.RawPath != "/a%2Fb/c" || r.URL.RawQuery != "d=e&f" ||
		r.Host != s.address || r.ContentLength != -1 || r.ProtoMajor != 2 || r.Proto != "HTTP/2.0" || !strings.HasPrefix(r.RemoteAddr, "127.0.0.1:") || r.TLS != nil {
		t.Errorf("the request is %+v", r)
	}
	if fmt.Sprint(r.Header) != "map[Accept-Encoding:[identity] Cookie:[a=1; b=2] User-Agent:[test] X-One:[1 2]]" && fmt.Sprint(r.Header) != "map[Cookie:[a=1; b=2] User-Agent:[test] X-One:[1 2]]" {
		t.Errorf("its header is %v", r.Header)
	}
	if fmt.Sprint(r.Trailer) != "map[X-Check:[sum]]" {
		t.Errorf("its trailers are %v", r.Trailer)
	}
}

// TestSimpleURLs: the URL is that of net/http's parser, for what takes no parser.
func TestSimpleURLs(t *testing.T) {
	seen := make(chan *http.Request, 1)
	s := serve(t, handler(func(_ http.ResponseWriter, r *http.Request) { seen <- r }), nil)
	c := s.dial(t)
	for i, target := range []string{"/", "/a", "/a?b=c", "/a?", "//a/b", "/a?b?c", "/a:b@c", "/%41", "/a;b"} {
		c.open(uint32(2*i+1), true, with(get(), ":path: "+target))
		r := <-seen
		want, err := http.NewRequest("GET", "http://h"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.URL.Path != want.URL.Path || r.URL.RawQuery != want.URL.RawQuery || r.URL.ForceQuery != want.URL.ForceQuery || r.URL.RequestURI() != target {
			t.Errorf("%s: %#v", target, r.URL)
		}
	}
}

func TestTunnels(t *testing.T) {
	seen := make(chan *http.Request, 1)
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(flushed{w}, r.Body)
	}), nil)
	c := s.dial(t)
	c.open(1, false, []string{":method: CONNECT", ":scheme: http", ":authority: a.example", ":path: /chat?a", ":protocol: websocket", "sec-websocket-version: 13"})
	r := <-seen
	if r.Method != "CONNECT" || r.RequestURI != "/chat?a" || r.URL.Path != "/chat" || r.Host != "a.example" || fmt.Sprint(r.Header[":protocol"]) != "[websocket]" || r.ContentLength != -1 {
		t.Errorf("%+v", r)
	}
	c.must(c.WriteData(1, false, []byte("ping")))
	got := ""
	for got != "ping" {
		frame := c.next()
		if f, ok := frame.(*http2.DataFrame); ok {
			got += string(f.Data())
		}
	}
	c.must(c.WriteData(1, true, nil))
	if a := c.answer(1); !a.ended {
		t.Error(a)
	}
	c.open(3, false, []string{":method: CONNECT", ":authority: a.example:443"})
	r = <-seen
	if r.RequestURI != "a.example:443" || r.URL.Host != "a.example:443" || r.Host != "a.example:443" {
		t.Errorf("%+v", r)
	}
}

// flushed sends each piece at once.
type flushed struct{ http.ResponseWriter }

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}

func TestCookies(t *testing.T) {
	seen := make(chan string, 1)
	s := serve(t, handler(func(_ http.ResponseWriter, r *http.Request) { seen <- fmt.Sprint(r.Header["Cookie"]) }), nil)
	c := s.dial(t)
	c.open(1, true, get("cookie: a=1", "x-a: 1", "cookie: b=2", "cookie: c=3"))
	if got := <-seen; got != "[a=1; b=2; c=3]" {
		t.Error(got)
	}
}

func TestInformational(t *testing.T) {
	s := serve(t, handler(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style>")
		w.WriteHeader(103)
		w.WriteHeader(200)
	}), nil)
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h.Get("Link")))
		return nil
	}})
	request, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s.address, nil)
	response, err := goClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if fmt.Sprint(hints) != "[103</style>]" {
		t.Error(hints)
	}
}

// TestLargeBodies: both ways at once, by the windows of both sides.
func TestLargeBodies(t *testing.T) {
	const size = 24 << 20
	whole := content(size)
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write(whole)
			return
		}
		_, _ = io.Copy(w, r.Body) // full duplex
	}), nil)
	client := goClient(t)
	sum := sha256.Sum256(whole)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			var response *http.Response
			var err error
			if i%2 == 0 {
				response, err = client.Get("http://" + s.address)
			} else {
				response, err = client.Post("http://"+s.address, "", bytes.NewReader(whole))
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			hash := sha256.New()
			if n, err := io.Copy(hash, response.Body); n != size || err != nil || !bytes.Equal(hash.Sum(nil), sum[:]) {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	all.Wait()
}

// TestTurns: a large response does not hold up a small one.
func TestTurns(t *testing.T) {
	near, far := net.Pipe() // no buffer between
	server := h2.NewConn(near, handler(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = w.Write(make([]byte, 8<<20))
			return
		}
		_, _ = w.Write(make([]byte, 100<<10))
	}))
	end := make(chan error)
	go func() { end <- server.Serve() }()
	defer func() { _ = far.Close(); <-end }()
	c := newRaw(t, far)
	c.write(http2.ClientPreface)
	c.must(c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 16 << 20}))
	c.must(c.WriteWindowUpdate(0, 64<<20))
	c.open(1, true, with(get(), ":path: /large"))
	c.until(http2.FrameData)
	c.open(3, true, get())
	for {
		f, ok := c.next().(*http2.DataFrame)
		switch {
		case ok && f.StreamID == 1:
			if f.StreamEnded() {
				t.Fatal("the small response came last")
			}
		case ok && f.StreamEnded():
			return
		}
	}
}

// TestManyStreams: a thousand at once on one connection, all open.
func TestManyStreams(t *testing.T) {
	const streams = 1000
	var here atomic.Int64
	all := make(chan struct{})
	options := handler(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		if here.Add(1) == streams {
			close(all)
		}
		<-all
		_, _ = io.Copy(w, r.Body)
	})
	options.MaxConcurrentStreams = streams
	s := serve(t, options, nil)
	c := s.dial(t)
	c.settled()
	for i := range streams {
		c.open(uint32(2*i+1), false, post())
	}
	<-all
	for i := range streams {
		c.must(c.WriteData(uint32(2*i+1), true, []byte("x")))
	}
	ended := map[uint32]bool{}
	for len(ended) < streams {
		frame := c.next()
		head := frame.Header()
		if head.Type == http2.FrameData && head.Flags.Has(http2.FlagDataEndStream) {
			ended[head.StreamID] = true
		}
	}
}

// TestClientCancels: the handler's context ends, with the client's code, and so do
// reading and writing.
func TestClientCancels(t *testing.T) {
	told := make(chan [3]error, 1)
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		wrote := make(chan error)
		go func() {
			_, err := w.Write(make([]byte, 1<<20)) // past the window
			wrote <- err
		}()
		_, read := r.Body.Read(make([]byte, 1))
		told <- [3]error{context.Cause(r.Context()), read, <-wrote}
	}), nil)
	c := s.dial(t)
	c.open(1, false, post())
	c.until(http2.FrameData) // the handler runs
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	for i, err := range <-told {
		var reset *h2.ResetError
		if !errors.As(err, &reset) || reset.Code != http2.ErrCodeCancel {
			t.Errorf("%d: %v", i, err)
		}
	}
	// The connection ends.
	c.open(3, false, post())
	c.until(http2.FrameData)
	_ = c.conn.Close()
	for i, err := range <-told {
		if !errors.Is(err, h2.ErrClosed) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := s.end(t); !errors.Is(err, h2.ErrClosed) {
		t.Error(err)
	}
}

// TestServerCuts: Close, and the end of the context, end everything.
func TestServerCuts(t *testing.T) {
	for _, how := range []string{"Close", "the context"} {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := make(chan struct{})
			options := handler(func(_ http.ResponseWriter, r *http.Request) {
				close(began)
				<-r.Context().Done()
			})
			options.Context = ctx
			s := serve(t, options, nil)
			c := s.dial(t)
			c.open(1, true, get())
			<-began
			if how == "Close" {
				s.each()[0].Close()
			} else {
				cancel()
			}
			if err := s.end(t); !errors.Is(err, h2.ErrClosed) || !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// TestGoAwayUnderLoad: connections end in good order while a client works, and it
// loses nothing.
func TestGoAwayUnderLoad(t *testing.T) {
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}), nil)
	client := goClient(t)
	stop := make(chan struct{})
	var work sync.WaitGroup
	var done atomic.Int64
	for range 16 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				response, err := client.Post("http://"+s.address, "", strings.NewReader("abc"))
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if string(body) != "abc" || err != nil {
					t.Errorf("%q, %v", body, err)
				}
				done.Add(1)
			}
		})
	}
	ended := 0
	for range 10 {
		target := done.Load() + 100
		waittest.Until(t, "a hundred requests", func() bool { return done.Load() >= target || t.Failed() })
		for _, c := range s.each() {
			c.GoAway()
		}
		for ended < len(s.each())-1 {
			if err := s.end(t); err != nil {
				t.Errorf("a connection ended with %v", err)
			}
			ended++
		}
	}
	close(stop)
	work.Wait()
	if len(s.each()) < 5 {
		t.Errorf("%d connections", len(s.each()))
	}
}

// TestOverTLS: a *tls.Conn is a connection like others; the requests know it.
func TestOverTLS(t *testing.T) {
	certificate := certtest.SelfSigned(t, "a.example").TLS()
	states := make(chan *tls.ConnectionState, 1)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer listener.Close()
	all.Go(func() {
		inner, err := listener.Accept()
		if err != nil {
			return
		}
		conn := inner.(*tls.Conn)
		if err := conn.Handshake(); err != nil {
			t.Error(err)
			return
		}
		state := conn.ConnectionState()
		options := handler(func(w http.ResponseWriter, r *http.Request) {
			states <- r.TLS
			_, _ = io.Copy(w, r.Body)
		})
		options.TLS = &state
		if err := h2.NewConn(conn, options).Serve(); err != nil && !errors.Is(err, h2.ErrClosed) {
			t.Error(err)
		}
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	whole := content(1 << 20)
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Post("https://"+listener.Addr().String(), "", bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); err != nil || !bytes.Equal(got, whole) {
		t.Error(len(got), err)
	}
	if state := <-states; state == nil || state.NegotiatedProtocol != "h2" {
		t.Error(state)
	}
}

// TestReadAhead: what a listener has read to know the protocol comes first.
func TestReadAhead(t *testing.T) {
	for split := 1; split < 54; split += 7 {
		near, far := net.Pipe()
		var sent bytes.Buffer
		sent.WriteString(http2.ClientPreface)
		framer := http2.NewFramer(&sent, nil)
		_ = framer.WriteSettings()
		client := newRaw(t, far)
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: client.encode(get()...), EndHeaders: true, EndStream: true})
		options := handler(echo)
		options.Preface = bytes.Clone(sent.Bytes()[:split])
		end := make(chan error)
		go func() { end <- h2.NewConn(near, options).Serve() }()
		_, err := far.Write(sent.Bytes()[split:])
		client.must(err)
		if a := client.answer(1); a.body != "GET /" {
			t.Errorf("split at %d: %v", split, a)
		}
		_ = far.Close()
		if err := <-end; err != nil && !errors.Is(err, h2.ErrClosed) {
			t.Error(err)
		}
	}
}
