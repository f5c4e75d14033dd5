package h2_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/h2"
	"sluice/internal/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// served is a listener whose connections are served, and what became of them.
type served struct {
	address string
	mu      sync.Mutex
	conns   []*h2.Conn
	ends    chan error
	all     sync.WaitGroup
}

// serve serves connections on a socket, each through wrap.
func serve(t *testing.T, options h2.Options, wrap func(net.Conn) net.Conn) *served {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{address: listener.Addr().String(), ends: make(chan error, 1000)}
	s.all.Go(func() {
		for {
			inner, err := listener.Accept()
			if err != nil {
				return
			}
			if wrap != nil {
				inner = wrap(inner)
			}
			c := h2.NewConn(inner, options)
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.all.Go(func() { s.ends <- c.Serve() })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		for _, c := range s.each() {
			c.Close()
		}
		s.all.Wait()
	})
	return s
}

func (s *served) each() []*h2.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*h2.Conn(nil), s.conns...)
}

// end waits for a connection's end.
func (s *served) end(t *testing.T) error {
	t.Helper()
	return waittest.Receive(t, "the connection ends", s.ends)
}

// raw is a client that writes frames.
type raw struct {
	*http2.Framer
	t     *testing.T
	conn  net.Conn
	block bytes.Buffer
	hpack *hpack.Encoder
	table *hpack.Decoder
}

// dial connects, with the preface, and empty SETTINGS.
func (s *served) dial(t *testing.T) *raw {
	t.Helper()
	c := s.connect(t)
	c.write(http2.ClientPreface)
	c.must(c.WriteSettings())
	return c
}

func (s *served) connect(t *testing.T) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return newRaw(t, conn)
}

func newRaw(t *testing.T, conn net.Conn) *raw {
	t.Helper()
	c := &raw{Framer: http2.NewFramer(conn, conn), t: t, conn: conn, table: hpack.NewDecoder(4096, nil)}
	c.hpack = hpack.NewEncoder(&c.block)
	c.AllowIllegalWrites = true
	_ = conn.SetDeadline(time.Now().Add(patience))
	return c
}

func (c *raw) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *raw) write(text string) {
	c.t.Helper()
	_, err := io.WriteString(c.conn, text)
	c.must(err)
}

// encode makes a block of "name: value" lines.
func (c *raw) encode(lines ...string) []byte {
	c.block.Reset()
	for _, line := range lines {
		name, value, _ := strings.Cut(line[1:], ": ")
		_ = c.hpack.WriteField(hpack.HeaderField{Name: line[:1] + name, Value: value})
	}
	return bytes.Clone(c.block.Bytes())
}

// get is the lines of a request, with more.
func get(more ...string) []string {
	return append([]string{":method: GET", ":scheme: http", ":authority: a.example", ":path: /"}, more...)
}

func post(more ...string) []string {
	return append([]string{":method: POST", ":scheme: http", ":authority: a.example", ":path: /"}, more...)
}

// open sends HEADERS.
func (c *raw) open(id uint32, end bool, lines []string) {
	c.t.Helper()
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(lines...), EndHeaders: true, EndStream: end}))
}

// answer is what came on a stream, or for the connection.
type answer struct {
	status   string
	fields   map[string]string
	trailers map[string]string
	body     string
	ended    bool
	interim  []string
	reset    *http2.ErrCode
	away     *http2.ErrCode
	debug    string
	frames   []string
}

func (a answer) String() string {
	text := a.status
	if a.reset != nil {
		text += " RST_STREAM " + a.reset.String()
	}
	if a.away != nil {
		text += " GOAWAY " + a.away.String() + " " + a.debug
	}
	return strings.TrimSpace(text)
}

// answer reads what comes on a stream until that, or the connection, ends.
func (c *raw) answer(id uint32) (a answer) {
	c.t.Helper()
	a.fields = map[string]string{}
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			if a.away == nil {
				c.t.Fatalf("reading: %v; so far %+v", err, a)
			}
			return a
		}
		head := frame.Header()
		if head.StreamID == id {
			a.frames = append(a.frames, fmt.Sprintf("%s %d", head.Type, head.Length))
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.WriteSettingsAck() // of a connection that ends
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = c.WritePing(true, f.Data)
			}
		case *http2.GoAwayFrame:
			code := f.ErrCode
			a.away, a.debug = &code, string(f.DebugData())
			if code != http2.ErrCodeNo {
				return a
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				a.reset = &f.ErrCode
				return a
			}
		case *http2.HeadersFrame:
			c.list(&a, id, f)
		case *http2.DataFrame:
			if f.StreamID == id {
				a.body += string(f.Data())
				a.ended = f.StreamEnded()
			}
		}
		if a.ended {
			return a
		}
	}
}

// next reads a frame, whose fields nobody looks at.
func (c *raw) next() http2.Frame {
	c.t.Helper()
	frame, err := c.ReadFrame()
	c.must(err)
	if f, ok := frame.(*http2.HeadersFrame); ok {
		c.list(&answer{}, 0, f)
	}
	return frame
}

// until reads up to a frame of a kind.
func (c *raw) until(kind http2.FrameType) {
	c.t.Helper()
	for {
		if c.next().Header().Type == kind {
			return
		}
	}
}

func (c *raw) list(a *answer, id uint32, f *http2.HeadersFrame) {
	c.t.Helper()
	block := bytes.Clone(f.HeaderBlockFragment())
	ended := f.HeadersEnded()
	mine, last := f.StreamID == id, f.StreamEnded()
	for !ended {
		next, err := c.ReadFrame()
		c.must(err)
		more := next.(*http2.ContinuationFrame)
		a.frames = append(a.frames, fmt.Sprintf("%s %d", more.Type, more.Length))
		block = append(block, more.HeaderBlockFragment()...)
		ended = more.HeadersEnded()
	}
	fields, err := c.table.DecodeFull(block)
	c.must(err)
	if !mine {
		return
	}
	a.ended = last
	into := map[string]string{}
	status := ""
	for _, field := range fields {
		if field.Name == ":status" {
			status = field.Value
			continue
		}
		if into[field.Name] != "" {
			field.Value = into[field.Name] + "|" + field.Value
		}
		into[field.Name] = field.Value
	}
	switch {
	case status == "":
		a.trailers = into
	case status[0] == '1':
		a.interim = append(a.interim, status)
	default:
		a.status, a.fields = status, into
	}
}

// settled waits for the server's SETTINGS, and acknowledges them.
func (c *raw) settled() {
	c.t.Helper()
	for {
		frame, err := c.ReadFrame()
		c.must(err)
		if f, ok := frame.(*http2.SettingsFrame); ok && !f.IsAck() {
			c.must(c.WriteSettingsAck())
			return
		}
	}
}

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, r.Method+" "+r.RequestURI)
}

func handler(f func(w http.ResponseWriter, r *http.Request)) h2.Options {
	return h2.Options{Handler: http.HandlerFunc(f)}
}

// rule tells whether an error is of a rule.
func rule(t *testing.T, err error, want *h2.ProtocolError) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the connection ended with %v, want %v", err, want)
	}
}

func contextCause(r *http.Request) error { return context.Cause(r.Context()) }
