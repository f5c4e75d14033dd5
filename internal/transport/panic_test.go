package transport

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/logtest"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// readyNoted is a body that says it is there, and notes its end.
type readyNoted struct {
	closeNoted
	says int
}

func (r *readyNoted) Buffered() int { return r.says }

// A panic of what an attempt calls goes on, and leaves nothing of the attempt.
func TestAttemptThatPanics(t *testing.T) {
	panicking := func() io.Reader { return readerFunc(func([]byte) (int, error) { panic("a body") }) }
	for name, test := range map[string]struct {
		path  string
		ready int
		body  func() io.Reader
	}{
		"in a body that is there": {"/", 5, panicking},
		"in an informer":          {"/inform", 0, nil},
		"in an informer, while the body is sent": {"/inform", 0, func() io.Reader {
			return readerFunc(func(p []byte) (int, error) { return copy(p, "x"), nil })
		}},
		"in an informer, after all of a body":      {"/inform", 5, func() io.Reader { return strings.NewReader("hello") }},
		"in an informer, while the body is silent": {"/inform", 0, func() io.Reader { r, _ := io.Pipe(); return r }},
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *bed) {
				var body io.Reader
				if test.body != nil {
					body = test.body()
				}
				panics(t, test.path, test.ready, body)
			})
		})
	}
}

func panics(t *bed, path string, says int, reader io.Reader) {
	t.Helper()
	gone := make(chan bool, 2)
	endpoint := scripted(t, func(p *peer) {
		for head := p.head(); head != ""; head = p.head() {
			if strings.Contains(head, "/inform") {
				p.say("HTTP/1.1 103 Early Hints\r\n\r\n")
				_, _ = io.Copy(io.Discard, p)
				break
			}
			if strings.HasPrefix(head, "GET") {
				p.say(ok)
			}
		}
		gone <- true
	})
	var c counts
	p := newPool(wayOf(endpoint, setup{pool: model.Pool{MaxConnections: 1, MaxPending: 1}, observer: c.observer()}), t.engine)
	t.Cleanup(p.Release)
	request := get(path)
	body := &readyNoted{closeNoted: closeNoted{Reader: reader}, says: says}
	if reader != nil {
		request.Method, request.Body, request.Length = "POST", body, 5
		if says == 0 {
			request.Length = message.Unknown
		}
		if t.own != nil {
			request.Body = &taskBody{executor: t.own, source: body}
		}
	}
	attempt := &pipeline.Attempt{Request: request, Informer: informer(func(int, message.Fields) { panic("an informer") })}
	var panicked atomic.Bool
	run := func(f func()) { f() }
	ctx := t.Context()
	if t.own != nil {
		own := new(netloop.Context)
		own.Init(t.own)
		ctx, run = own, func(f func()) { do(t.own, f) }
	}
	run(func() {
		defer func() { panicked.Store(recover() != nil) }()
		_ = p.RoundTrip(ctx, attempt)
	})
	if !panicked.Load() {
		t.Error("the panic was swallowed")
	}
	waittest.Receive(t, "the end of the connection", gone)
	if silent, ok := reader.(*io.PipeReader); ok {
		_ = silent.Close() // its reader was left behind, and closes it
	}
	if reader != nil {
		waittest.Until(t, "the body is closed", body.closed.Load)
	}
	// The same context and the only place serve another attempt.
	run(func() {
		next := &pipeline.Attempt{Request: get("/")}
		if err := p.RoundTrip(ctx, next); err != nil {
			t.Errorf("then got %v", err)
			return
		}
		if text, err := io.ReadAll(next.Response.Body); string(text) != "ok" || err != nil {
			t.Errorf("then got %q and %v", text, err)
		}
	})
	if got := c.String(); got != "opened 2, reused 0, closed 1" {
		t.Error(got)
	}
}

// A body that panics aside of its attempt ends that attempt, not the process.
func TestForeignBodyThatPanics(t *testing.T) {
	var logged bytes.Buffer
	executor := netloop.NewGoroutines(slog.New(slog.NewTextHandler(&logged, nil)))
	endpoint := scripted(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) })
	transport := open(&bed{T: t, engine: NewEngine(nil, executor)}, endpoint, setup{})
	body := &closeNoted{Reader: readerFunc(func([]byte) (int, error) { panic("a body") })}
	request := post(nil, 5)
	request.Body = body
	wantError(t, fails(t.Context(), t, transport, request), pipeline.Internal)
	waittest.Until(t, "the body is closed", body.closed.Load)
	executor.Stop()
	if text := logged.String(); !strings.Contains(text, "a body") || !strings.Contains(text, "TestForeignBodyThatPanics") {
		t.Errorf("the log says %q", text)
	}
}

// wicked is a body whose Close panics.
type wicked struct{ io.Reader }

func (w *wicked) Close() error {
	if pipe, ok := w.Reader.(*io.PipeReader); ok {
		_ = pipe.Close()
	}
	panic("a close")
}

// An observer that panics, or a request's body whose Close does, leaves no
// connection, no place and no task behind; the log tells of it.
func TestWhatPanicsBesideAnAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		observer func(panics func(string, string)) Observer
		body     func() io.Reader
		path     string
	}{
		"opened":            {observer: func(f func(string, string)) Observer { return Observer{Opened: f} }},
		"reused":            {observer: func(f func(string, string)) Observer { return Observer{Reused: f} }},
		"closed":            {observer: func(f func(string, string)) Observer { return Observer{Closed: f} }, path: "/close"},
		"a body":            {body: func() io.Reader { return strings.NewReader("hello") }},
		"a body that hangs": {body: func() io.Reader { r, _ := io.Pipe(); return r }, path: "/close"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{"foreign", "goroutine", "loop"} {
				if kind == "foreign" && name == "a body that hangs" {
					continue // who reads it is left behind, and closes it at its end
				}
				t.Run(kind, func(t *testing.T) {
					var logged logtest.Buffer
					aside := netloop.NewGoroutines(slog.New(slog.NewTextHandler(&logged, nil)))
					defer aside.Stop()
					b := &bed{T: t, engine: NewEngine(nil, aside)}
					switch kind {
					case "goroutine":
						b.own, b.engine = aside, NewEngine([]netloop.Executor{aside}, aside)
					case "loop":
						loops := startLoops(t)
						b.own, b.engine = loops[0], NewEngine(loops, aside)
					}
					besideAnAttempt(b, test.path, test.observer, test.body)
					waittest.Until(t, "the log tells of it", func() bool {
						return strings.Contains(logged.String(), "TestWhatPanicsBesideAnAttempt") || strings.Contains(logged.String(), "wicked")
					})
				})
			}
		})
	}
}

func besideAnAttempt(t *bed, path string, observer func(func(string, string)) Observer, body func() io.Reader) {
	t.Helper()
	endpoint := scripted(t, func(p *peer) {
		for head := p.head(); head != ""; head = p.head() {
			if strings.Contains(head, "/close") {
				p.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
				return
			}
			if strings.HasPrefix(head, "POST") {
				p.until("hello\r\n0\r\n\r\n")
			}
			p.say(ok)
		}
	})
	var observed Observer
	if observer != nil {
		observed = observer(func(string, string) { panic("in TestWhatPanicsBesideAnAttempt") })
	}
	transport := open(t, endpoint, setup{observer: observed, pool: model.Pool{MaxConnections: 1, MaxPending: 1}})
	for range 3 {
		request := get("/" + strings.TrimPrefix(path, "/"))
		if body != nil {
			request = post(nil, message.Unknown)
			request.Path, request.Body = "/"+strings.TrimPrefix(path, "/"), &wicked{Reader: body()}
		}
		if _, text := ask(t, transport, request); text != "ok" {
			t.Errorf("got %q", text)
		}
	}
	waittest.Until(t, "no place is taken", func() bool { return transport.places() == 0 })
}
