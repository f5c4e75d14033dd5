package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// large is a size that goes by pipes, in many pipefuls.
const large = 12 << 20

// drivers runs a test on the engine's own executors: no other's bodies go by
// pipes.
func drivers(t *testing.T, test func(t *bed)) {
	t.Helper()
	engines(t, func(t *bed) {
		if t.own == nil {
			t.Skip("bodies are read aside")
		}
		test(t)
	})
}

// route is a client's connection, as the server has it, with what passes over it
// both ways: the body of a request, and of its response.
type route struct {
	client *net.TCPConn // the client's end
	conn   netloop.Conn // ours
	watch  pipeline.Watch
	left   atomic.Int64 // of the request's body

	up, down atomic.Int64 // bytes that went by pipes
	closed   atomic.Bool
}

// newRoute connects a client that sends a body of left bytes.
func newRoute(t *bed, left int) *route {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	ours, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	r := &route{client: client.(*net.TCPConn)}
	r.left.Store(int64(left))
	do(t.own, func() { r.conn, err = t.own.Adopt(ours) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { do(t.own, func() { _ = r.conn.Close() }) })
	return r
}

// Read reads the request's body.
func (r *route) Read(p []byte) (int, error) {
	r.watch.Ask()
	n, err := r.conn.Read(p[:min(int64(len(p)), r.left.Load())])
	return r.came(n, err)
}

// ReadInto is Read into a pipe.
func (r *route) ReadInto(p *netloop.Pipe, most int64) (int, error) {
	r.watch.Ask()
	n, err := r.conn.ReadInto(p, min(most, r.left.Load()))
	r.up.Add(int64(n))
	return r.came(n, err)
}

func (r *route) came(n int, err error) (int, error) {
	r.watch.Given(n)
	r.left.Add(-int64(n))
	return n, err
}

// Close wakes who reads a body that is not over.
func (r *route) Close() error {
	r.closed.Store(true)
	if r.left.Load() > 0 {
		r.conn.Interrupt(errBodyClosed)
	}
	return nil
}

// request is one with the client's body.
func (r *route) request(method string) *message.Request {
	request := get("/large")
	request.Method, request.Body, request.Length = method, r, r.left.Load()
	return request
}

// forward does what a gateway does: an attempt, whose response goes to the
// client. The error is the attempt's, or that of writing to the client.
func (r *route) forward(t *bed, transport opened, request *message.Request) (err error) {
	t.Helper()
	do(t.own, func() {
		var ctx netloop.Context
		ctx.Init(t.own)
		try := &pipeline.Attempt{Request: request, Watch: &r.watch}
		if err = transport.pool.RoundTrip(&ctx, try); err != nil {
			return
		}
		r.watch.Answered(time.Now(), false)
		if err = r.deliver(try.Response.Body); errors.Is(err, errWrite) {
			_ = try.Response.Body.Close() // else it is over
		}
	})
	return err
}

// errWrite is a failure to write to the client.
var errWrite = errors.New("the client takes no more")

// deliver moves a body to the client.
func (r *route) deliver(body io.Reader) error {
	pipe, pipeErr := r.conn.Executor().NewPipe()
	if pipeErr == nil {
		defer pipe.Close()
	}
	buffer := make([]byte, pieceSize)
	for {
		source, ok := body.(netloop.PipeReader)
		n, err := 0, errors.ErrUnsupported
		var writeErr error
		if ok && pipeErr == nil {
			n, err = source.ReadInto(pipe, large)
			r.down.Add(int64(n))
		}
		if errors.Is(err, errors.ErrUnsupported) {
			n, err = body.Read(buffer)
			_, writeErr = r.conn.Write(buffer[:n])
		} else if n > 0 {
			_, writeErr = r.conn.WriteFrom(pipe)
		}
		r.watch.Touch()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case writeErr != nil:
			return errWrite
		}
	}
}

// piping checks that pipes were used, where there are any.
func (r *route) piping(t *bed, up, down bool) {
	t.Helper()
	if runtime.GOOS == "linux" && (up && r.up.Load() == 0 || down && r.down.Load() == 0) {
		t.Errorf("%d bytes went up, and %d down by pipes", r.up.Load(), r.down.Load())
	}
}

// sends writes a body in parts, with pauses before each.
func sends(w io.Writer, body []byte, parts int, pause time.Duration) {
	for i := range parts {
		<-time.After(pause)
		if _, err := w.Write(body[len(body)*i/parts : len(body)*(i+1)/parts]); err != nil {
			return
		}
	}
}

// takes reads size bytes in parts, with pauses before each.
func takes(r io.Reader, size, parts int, pause time.Duration) []byte {
	body := make([]byte, size)
	got := 0
	for i := range parts {
		<-time.After(pause)
		n, err := io.ReadFull(r, body[size*i/parts:size*(i+1)/parts])
		if got += n; err != nil {
			break
		}
	}
	return body[:got]
}

// Large bodies come through as they are, however long it takes: the time-outs
// that pass in the middle mean nothing while bytes pass.
func TestLargeBodiesByPipes(t *testing.T) {
	downward := pattern(large + 12345)
	upward := downward[12345:]
	drivers(t, func(t *bed) {
		for name, test := range map[string]struct {
			client, endpoint time.Duration
			idle             time.Duration
		}{
			"at once":         {},
			"a slow client":   {client: 120 * time.Millisecond, idle: 800 * time.Millisecond},
			"a slow endpoint": {endpoint: 120 * time.Millisecond, idle: 800 * time.Millisecond},
		} {
			t.Run(name, func(t *bed) {
				got := make(chan []byte, 1)
				endpoint := scripted(t, func(p *peer) {
					for head := p.head(); head != ""; head = p.head() {
						if !strings.HasPrefix(head, "POST") {
							p.say(ok)
							continue
						}
						got <- takes(p, len(upward), 8, test.endpoint)
						p.say("HTTP/1.1 200 OK\r\nContent-Length: " + itoa(len(downward)) + "\r\n\r\n")
						sends(p.Conn, downward, 8, test.endpoint)
					}
				})
				var c counts
				transport := open(t, endpoint, setup{observer: c.observer()})
				r := newRoute(t, len(upward))
				r.watch.Begin(model.RouteTimeouts{Idle: test.idle}, time.Now())
				var client sync.WaitGroup
				client.Go(func() {
					sends(r.client, upward, 8, test.client)
					if answer := takes(r.client, len(downward), 8, test.client); !bytes.Equal(answer, downward) {
						t.Errorf("the client got %d bytes, not the endpoint's %d", len(answer), len(downward))
					}
				})
				if err := r.forward(t, transport, r.request("POST")); err != nil {
					t.Error(err)
				}
				if body := waittest.Receive(t, "a body", got); !bytes.Equal(body, upward) {
					t.Errorf("the endpoint got %d bytes, not the client's %d", len(body), len(upward))
				}
				client.Wait()
				r.piping(t, true, true)
				if ask(t, transport, get("/")); c.String() != "opened 1, reused 1, closed 0" {
					t.Error(c.String())
				}
			})
		}
	})
}

// An endpoint that breaks off in the middle of a large request gets it once, and
// of a response what came reaches the client.
func TestEndpointBreaksOffALargeBody(t *testing.T) {
	body := pattern(large)
	drivers(t, func(t *bed) {
		for name, test := range map[string]struct {
			method string
			reset  bool
		}{
			"closing in a request":           {"PUT", false},
			"resetting in a request":         {"PUT", true},
			"closing in a response":          {"GET", false},
			"resetting in a response":        {"GET", true},
			"closing in a request by POST":   {"POST", false},
			"resetting in a request by POST": {"POST", true},
		} {
			t.Run(name, func(t *bed) {
				var requests atomic.Int64
				endpoint := scripted(t, func(p *peer) {
					for head := p.head(); head != ""; head = p.head() {
						switch {
						case !strings.Contains(head, "/large"):
							p.say(ok)
							continue
						case test.method == "GET":
							p.say("HTTP/1.1 200 OK\r\nContent-Length: " + itoa(large) + "\r\n\r\n")
							_, _ = p.Conn.Write(body[:large/2])
						default:
							_ = takes(p, large/2, 1, 0)
						}
						requests.Add(1)
						if test.reset {
							_ = p.Conn.(*net.TCPConn).SetLinger(0)
						}
						return
					}
				})
				transport := open(t, endpoint, setup{})
				ask(t, transport, get("/")) // so that the connection has served before
				r := newRoute(t, large)
				request := r.request(test.method)
				got := make(chan []byte, 1)
				if test.method == "GET" {
					request.Body, request.Length = nil, 0
					go func() { got <- takes(r.client, large, 1, 0) }()
				} else {
					go sends(r.client, body, 1, 0)
				}
				wantError(t, r.forward(t, transport, request), pipeline.UpstreamReset)
				if !test.reset { // which takes back what came
					r.piping(t, test.method != "GET", test.method == "GET")
				}
				do(t.own, func() { _ = r.conn.Close() })
				if test.method == "GET" {
					if part := waittest.Receive(t, "a part", got); !bytes.HasPrefix(body, part) || !test.reset && len(part) != large/2 {
						t.Errorf("the client got %d bytes of other %d", len(part), large/2)
					}
				} else if !r.closed.Load() {
					t.Error("the body was not closed")
				}
				if n := requests.Load(); n != 1 {
					t.Errorf("the request went out %d times", n)
				}
				ask(t, transport, get("/"))
			})
		}
	})
}

// A client that breaks off in the middle of a large body ends its attempt alone.
func TestClientBreaksOffALargeBody(t *testing.T) {
	body := pattern(large)
	drivers(t, func(t *bed) {
		for name, test := range map[string]struct {
			method string
			reset  bool
		}{
			"closing in a request":    {"PUT", false},
			"resetting in a request":  {"PUT", true},
			"resetting in a response": {"GET", true},
		} {
			t.Run(name, func(t *bed) {
				got := make(chan []byte, 1)
				endpoint := scripted(t, func(p *peer) {
					for head := p.head(); head != ""; head = p.head() {
						switch {
						case !strings.Contains(head, "/large"):
							p.say(ok)
						case test.method == "GET":
							p.say("HTTP/1.1 200 OK\r\nContent-Length: " + itoa(4*large) + "\r\n\r\n")
							for range 4 { // more than buffers of the system take
								_, _ = p.Conn.Write(body)
							}
						default:
							got <- takes(p, large, 1, 0)
						}
					}
				})
				var c counts
				transport := open(t, endpoint, setup{observer: c.observer(), pool: model.Pool{MaxConnections: 1}})
				ask(t, transport, get("/"))
				r := newRoute(t, large)
				request := r.request(test.method)
				if test.method == "GET" {
					request.Body, request.Length = nil, 0
				}
				go func() {
					if test.method == "GET" {
						_ = takes(r.client, large/2, 1, 0)
					} else {
						sends(r.client, body[:large/2], 1, 0)
					}
					if test.reset {
						_ = r.client.SetLinger(0)
					}
					r.client.Close()
				}()
				err := r.forward(t, transport, request)
				if test.method == "GET" {
					if !errors.Is(err, errWrite) {
						t.Errorf("got %v", err)
					}
				} else {
					wantError(t, err, pipeline.ClientClosed)
					if part := waittest.Receive(t, "a part", got); !bytes.HasPrefix(body, part) || !test.reset && len(part) != large/2 {
						t.Errorf("the endpoint got %d bytes of other %d", len(part), large/2)
					}
				}
				if !test.reset { // which takes back what came
					r.piping(t, test.method != "GET", test.method == "GET")
				}
				ask(t, transport, get("/")) // in the place of the one that broke
				if got := c.String(); got != "opened 2, reused 1, closed 1" {
					t.Error(got)
				}
			})
		}
	})
}

// What is more than is kept is never sent again, wherever its connection dies,
// and what is sent again is all of it.
func TestNoReplayOfALargeBody(t *testing.T) {
	drivers(t, func(t *bed) {
		body := pattern(8 * maxReplay)
		for _, at := range []int{
			0, 1, pieceSize, maxReplay - 1, maxReplay, maxReplay + 1, maxReplay + pieceSize, 2*maxReplay + 1, len(body) - 1, len(body),
		} {
			for name, source := range map[string]func(r *route) io.ReadCloser{
				"from a socket": func(r *route) io.ReadCloser { return r },
				"by pieces":     func(r *route) io.ReadCloser { return pieces{r} },
			} {
				transport, bodies := dying(t, at, len(body))
				r := newRoute(t, len(body))
				go sends(r.client, body, 1, 0)
				request := r.request("PUT")
				request.Body = source(r)
				err := r.forward(t, transport, request)
				if err != nil {
					wantError(t, err, pipeline.UpstreamReset)
					if len(bodies) > 0 {
						t.Errorf("%s, after %d bytes: it was sent again, then %v", name, at, err)
					}
					continue
				}
				if at > maxReplay {
					t.Errorf("%s, after %d bytes: it was sent again", name, at)
				}
				if got := waittest.Receive(t, "a body", bodies); !bytes.Equal(got, body) {
					t.Errorf("%s, after %d bytes: %d bytes went out as %d others", name, at, len(body), len(got))
				}
			}
		}
	})
}

// pieces hides that a body could go by a pipe.
type pieces struct{ io.ReadCloser }
