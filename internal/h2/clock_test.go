package h2_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/h2"
)

// piped serves a connection without a system's socket; the client reads into
// events until the connection ends.
type piped struct {
	*raw
	server *h2.Conn
	end    chan error
	frames chan string
}

func pipe(t *testing.T, options h2.Options) *piped {
	t.Helper()
	near, far := net.Pipe()
	p := &piped{raw: newRaw(t, far), server: h2.NewConn(near, options), end: make(chan error, 1), frames: make(chan string, 1000)}
	_ = far.SetDeadline(time.Time{})
	go func() { p.end <- p.server.Serve() }()
	return p
}

// reads notes the frames that come.
func (p *piped) reads() {
	go func() {
		defer close(p.frames)
		for {
			frame, err := p.ReadFrame()
			if err != nil {
				return
			}
			text := frame.Header().Type.String()
			if away, ok := frame.(*http2.GoAwayFrame); ok {
				text += " " + away.ErrCode.String()
			}
			p.frames <- text
		}
	}()
}

// came are the frames that have come.
func (p *piped) came() string {
	var all []string
	for {
		select {
		case frame, ok := <-p.frames:
			if ok {
				all = append(all, frame)
				continue
			}
		default:
		}
		return strings.Join(all, ", ")
	}
}

// finish ends the test: the connection has to have ended by itself.
func (p *piped) finish() error {
	synctest.Wait()
	select {
	case err := <-p.end:
		_ = p.conn.Close()
		return err
	default:
		p.server.Close()
		_ = p.conn.Close()
		return errors.Join(errors.New("the connection goes on"), <-p.end)
	}
}

func TestTimeouts(t *testing.T) {
	const second = time.Second
	quick := handler(echo)
	quick.ReadHeaderTimeout = 5 * second
	cases := []struct {
		name    string
		options h2.Options
		do      func(c *piped)
		after   time.Duration // when it ends
		rule    error         // nil: in good order
		frames  string        // of the end
	}{
		{"nothing comes", quick, func(*piped) {}, 5 * second, h2.ErrHeaderTimeout, "GOAWAY PROTOCOL_ERROR"},
		{"half a preface", quick, func(c *piped) { c.write("PRI * ") }, 5 * second, h2.ErrHeaderTimeout, "GOAWAY PROTOCOL_ERROR"},
		{"SETTINGS are not acknowledged", handler(echo), func(c *piped) {
			c.write(http2.ClientPreface)
			c.must(c.WriteSettings())
		}, 10 * second, h2.ErrSettingsTimeout, "GOAWAY SETTINGS_TIMEOUT"},
		{"idle", handler(echo), begins, 120*second + time.Second, nil, "GOAWAY NO_ERROR, PING, GOAWAY NO_ERROR"},
		{"idle after a request", handler(echo), func(c *piped) {
			begins(c)
			time.Sleep(50 * second)
			c.open(1, true, get())
		}, 171 * second, nil, "GOAWAY NO_ERROR, PING, GOAWAY NO_ERROR"},
		{"a header block that stops", handler(echo), func(c *piped) {
			begins(c)
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...)}))
		}, 10 * second, h2.ErrHeaderTimeout, "GOAWAY PROTOCOL_ERROR"},
		{"a frame that stops", handler(echo), func(c *piped) {
			begins(c)
			c.write("\x00\x00\x08\x06\x00\x00\x00\x00\x00half")
		}, 10 * second, h2.ErrHeaderTimeout, "GOAWAY PROTOCOL_ERROR"},
		{"a block that comes drop by drop", handler(echo), func(c *piped) {
			begins(c)
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...)}))
			go func() {
				for c.WriteContinuation(1, false, []byte{0x82}) == nil {
					time.Sleep(second)
				}
			}()
		}, 10 * second, h2.ErrHeaderTimeout, "GOAWAY PROTOCOL_ERROR"},
		{"the first window stays closed", handler(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.Write(make([]byte, 100<<10)); err == nil {
				panic(http.ErrAbortHandler)
			}
		}), func(c *piped) {
			begins(c)
			c.open(1, true, get())
		}, 60*second + 121*second, nil, "DATA, RST_STREAM, GOAWAY NO_ERROR, PING, GOAWAY NO_ERROR"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pipe(t, tc.options)
				p.reads()
				start := time.Now()
				tc.do(p)
				err := <-p.end
				p.end <- err
				// Who talks to no socket has nothing to linger for.
				if took := time.Since(start); took != tc.after {
					t.Errorf("it ended after %v, want %v", took, tc.after)
				}
				if !errors.Is(err, tc.rule) {
					t.Errorf("it ended with %v, want %v", err, tc.rule)
				}
				synctest.Wait()
				if got := p.came(); !strings.HasSuffix(got, tc.frames) {
					t.Errorf("frames %s, want %s at the end", got, tc.frames)
				}
				_ = p.finish()
				time.Sleep(2 * second) // for who still writes
			})
		})
	}
}

func begins(c *piped) {
	c.write(http2.ClientPreface)
	c.must(c.WriteSettings())
	c.must(c.WriteSettingsAck())
}

// TestStalledConnection: who reads nothing is cut.
func TestStalledConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipe(t, handler(echo))
		begins(p)
		p.open(1, true, get()) // and nothing is read
		time.Sleep(61 * time.Second)
		if err := p.finish(); !errors.Is(err, h2.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestGoAway: the client is warned, its streams are served, those that it opens
// before it can know as well, later ones not.
func TestGoAway(t *testing.T) {
	for _, answered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			let := make(chan struct{})
			p := pipe(t, handler(func(w http.ResponseWriter, r *http.Request) {
				<-let
				echo(w, r)
			}))
			p.reads()
			begins(p)
			p.open(1, true, get())
			synctest.Wait()
			p.server.GoAway()
			p.server.GoAway()
			synctest.Wait()
			if got := p.came(); !strings.HasSuffix(got, "SETTINGS, GOAWAY NO_ERROR, PING") {
				t.Fatal(got)
			}
			p.open(3, true, get())
			synctest.Wait()
			if p.server.Active() != 2 {
				t.Fatalf("%d streams", p.server.Active())
			}
			if answered {
				p.must(p.WritePing(true, [8]byte{'p', 'a', 'r', 't', 'i', 'n', 'g'}))
			} else {
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if got := p.came(); got != "GOAWAY NO_ERROR" {
				t.Fatal(got)
			}
			p.open(5, false, post())
			p.must(p.WriteData(5, true, []byte("passed over")))
			synctest.Wait()
			close(let)
			synctest.Wait()
			if got := p.came(); got != "HEADERS, DATA, HEADERS, DATA" {
				t.Error(got)
			}
			if err := p.finish(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGoAwayAtOnce: before it is served, a connection is warned first thing.
func TestGoAwayAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		server := h2.NewConn(near, handler(echo))
		server.GoAway()
		p := &piped{raw: newRaw(t, far), server: server, end: make(chan error, 1), frames: make(chan string, 1000)}
		go func() { p.end <- server.Serve() }()
		p.reads()
		begins(p)
		time.Sleep(2 * time.Second)
		if got := p.came(); got != "SETTINGS, WINDOW_UPDATE, GOAWAY NO_ERROR, PING, GOAWAY NO_ERROR, SETTINGS" &&
			got != "SETTINGS, WINDOW_UPDATE, GOAWAY NO_ERROR, PING, SETTINGS, GOAWAY NO_ERROR" {
			t.Error(got)
		}
		if err := p.finish(); err != nil {
			t.Error(err)
		}
	})
}

// TestLinger: a client that still sends gets the last word, before the system
// breaks the connection.
func TestLinger(t *testing.T) {
	s := serve(t, handler(echo), nil)
	c := s.connect(t)
	c.write("GET / HTTP/1.1\r\n" + strings.Repeat("x-a: 1\r\n", 10000) + "\r\n")
	if a := c.answer(0); a.away == nil || *a.away != http2.ErrCodeProtocol {
		t.Error(a)
	}
	if _, err := c.ReadFrame(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
