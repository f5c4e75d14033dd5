package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// fake is a transport whose endpoint lives by a clock: it reads the request's
// body, waits for the head, and gives a response whose bytes wait as well.
type fake struct {
	head    time.Duration // after the body's end; negative: before the body is read
	inform  time.Duration // between informational responses until then; 0: none
	kind    string        // Content-Type
	pauses  []time.Duration
	upgrade bool
}

func (f *fake) RoundTrip(ctx context.Context, request *message.Request, inform func(int, message.Fields)) (*message.Response, error) {
	if request.Body != nil {
		defer request.Body.Close()
		if f.head >= 0 {
			read := make(chan error, 1)
			var body io.Reader = request.Body
			if request.Length != message.Unknown { // as a transport, no byte further
				body = io.LimitReader(body, request.Length)
			}
			go func() { _, err := io.Copy(io.Discard, body); read <- err }()
			select {
			case err := <-read:
				if err != nil {
					return nil, err
				}
			case <-ctx.Done():
				return nil, fmt.Errorf("ended: %w", context.Cause(ctx))
			}
		}
	}
	for left := f.head; left > 0; {
		pause := left
		if f.inform > 0 {
			pause = min(pause, f.inform)
		}
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
		if left -= pause; left > 0 {
			inform(103, nil)
		}
	}
	response := &message.Response{Status: 200, Length: message.Unknown}
	response.Fields.Add("Content-Type", f.kind)
	stream := &paced{ctx: ctx, pauses: f.pauses}
	if f.upgrade {
		response.Status, response.Tunnel = 101, stream
		response.Fields.Add("Connection", "Upgrade")
		response.Fields.Add("Upgrade", "websocket")
	} else {
		response.Body = stream
	}
	return response, nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ended: %w", context.Cause(ctx))
	}
}

// paced gives a byte after each pause.
type paced struct {
	ctx    context.Context
	pauses []time.Duration
}

func (p *paced) Read(b []byte) (int, error) {
	if len(p.pauses) == 0 {
		return 0, io.EOF
	}
	if err := wait(p.ctx, p.pauses[0]); err != nil {
		return 0, err
	}
	p.pauses = p.pauses[1:]
	b[0] = '.'
	return 1, nil
}

func (p *paced) Write(b []byte) (int, error) { return len(b), p.ctx.Err() }
func (p *paced) CloseWrite() error           { return nil }
func (p *paced) Close() error                { return nil }

// drip is a body that gives a byte after each pause.
func drip(ctx context.Context, pauses ...time.Duration) io.Reader {
	return &paced{ctx: ctx, pauses: pauses}
}

func seconds(n ...int) (pauses []time.Duration) {
	for _, one := range n {
		pauses = append(pauses, time.Duration(one)*time.Second)
	}
	return pauses
}

func TestTimeouts(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		limits    model.RouteTimeouts
		body      []time.Duration // of the request; nil: none
		length    int64
		began     time.Duration // how long ago the exchange began
		waited    time.Duration // before, of that
		transport fake
		after     time.Duration // when it is over
		early     bool          // it ends before the head
		cause     string        // of the time-out; "" for none
		client    bool          // it is the client's fault
	}{
		"response, no body":            {limits: model.RouteTimeouts{Response: 5 * s}, transport: fake{head: 6 * s}, after: 5 * s, early: true, cause: "timeout of 5s"},
		"response, in time":            {limits: model.RouteTimeouts{Response: 5 * s}, transport: fake{head: 4 * s, pauses: seconds(9)}, after: 13 * s},
		"response, from the end":       {limits: model.RouteTimeouts{Response: 5 * s}, body: seconds(4, 4), length: message.Unknown, transport: fake{head: 6 * s}, after: 13 * s, early: true, cause: "timeout of 5s"},
		"response, from a known end":   {limits: model.RouteTimeouts{Response: 5 * s}, body: seconds(4, 4, 100), length: 2, transport: fake{head: 6 * s}, after: 13 * s, early: true, cause: "timeout of 5s"},
		"response, of an empty body":   {limits: model.RouteTimeouts{Response: 5 * s}, body: seconds(), length: 0, transport: fake{head: 6 * s}, after: 5 * s, early: true, cause: "timeout of 5s"},
		"response, answered before":    {limits: model.RouteTimeouts{Response: 5 * s}, body: seconds(100), length: message.Unknown, transport: fake{head: -1, pauses: seconds(50)}, after: 50 * s},
		"response, despite 103":        {limits: model.RouteTimeouts{Response: 5 * s}, transport: fake{head: 9 * s, inform: 1 * s}, after: 5 * s, early: true, cause: "timeout of 5s"},
		"idle before the head":         {limits: model.RouteTimeouts{Idle: 5 * s}, transport: fake{head: 6 * s}, after: 5 * s, early: true, cause: "idle_timeout of 5s"},
		"idle, kept off by 103":        {limits: model.RouteTimeouts{Idle: 5 * s}, transport: fake{head: 16 * s, inform: 4 * s, pauses: seconds(1)}, after: 17 * s},
		"idle in the request":          {limits: model.RouteTimeouts{Idle: 5 * s}, body: seconds(4, 4, 6), length: message.Unknown, transport: fake{}, after: 13 * s, early: true, cause: "idle_timeout of 5s in the body of the request", client: true},
		"idle in request and response": {limits: model.RouteTimeouts{Idle: 5 * s}, body: seconds(100), length: message.Unknown, transport: fake{head: -1, pauses: seconds(6)}, after: 5 * s, cause: "idle_timeout of 5s"},
		"idle, kept off by a request":  {limits: model.RouteTimeouts{Idle: 5 * s}, body: seconds(4, 4, 4, 4), length: message.Unknown, transport: fake{head: 4 * s, pauses: seconds(4)}, after: 24 * s},
		"idle in the response":         {limits: model.RouteTimeouts{Idle: 5 * s}, transport: fake{pauses: seconds(4, 4, 6)}, after: 13 * s, cause: "idle_timeout of 5s"},
		"idle, kept off by a response": {limits: model.RouteTimeouts{Idle: 5 * s}, transport: fake{pauses: seconds(4, 4, 4, 4)}, after: 16 * s},
		"a stream is silent longer":    {limits: model.RouteTimeouts{Idle: 5 * s, IdleStream: 20 * s}, transport: fake{kind: "text/event-stream; charset=utf-8", pauses: seconds(19, 19, 21)}, after: 58 * s, cause: "idle_timeout of 20s"},
		"of gRPC as well":              {limits: model.RouteTimeouts{Idle: 5 * s, IdleStream: 20 * s}, transport: fake{kind: "Application/gRPC+proto", pauses: seconds(19)}, after: 19 * s},
		"a stream for ever":            {limits: model.RouteTimeouts{Idle: 5 * s}, transport: fake{kind: "text/event-stream", pauses: seconds(10000)}, after: 10000 * s},
		"a stream's head is in Idle":   {limits: model.RouteTimeouts{Idle: 5 * s, IdleStream: 20 * s}, transport: fake{head: 6 * s, kind: "text/event-stream"}, after: 5 * s, early: true, cause: "idle_timeout of 5s"},
		"total before the head":        {limits: model.RouteTimeouts{Total: 5 * s}, transport: fake{head: 6 * s}, after: 5 * s, early: true, cause: "total_timeout of 5s"},
		"total in the response":        {limits: model.RouteTimeouts{Total: 5 * s, Idle: 3 * s}, transport: fake{pauses: seconds(2, 2, 2)}, after: 5 * s, cause: "total_timeout of 5s"},
		"total, of the whole exchange": {limits: model.RouteTimeouts{Total: 5 * s}, began: 2 * s, transport: fake{head: 6 * s}, after: 3 * s, early: true, cause: "total_timeout of 5s"},
		"total, waited before":         {limits: model.RouteTimeouts{Total: 5 * s}, began: 2 * s, waited: 2 * s, transport: fake{head: 6 * s}, after: 3 * s, early: true, cause: "total_timeout of 5s"},
		"response, waited before":      {limits: model.RouteTimeouts{Response: 5 * s}, waited: 2 * s, transport: fake{head: 4 * s}, after: 3 * s, early: true, cause: "timeout of 5s"},
		"with a body, waited before":   {limits: model.RouteTimeouts{Response: 5 * s}, waited: 2 * s, body: seconds(4), length: message.Unknown, transport: fake{head: 4 * s}, after: 7 * s, early: true, cause: "timeout of 5s"},
		"none":                         {transport: fake{head: 1000 * s, pauses: seconds(1000)}, after: 2000 * s},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := forward(t, &model.Route{Timeouts: test.limits}, &test.transport, model.Endpoint{URL: "http://e", Weight: 1})
				request := get("/")
				ctx, cancel := context.WithCancel(t.Context())
				if test.body != nil {
					request = post(drip(ctx, test.body...), test.length)
				}
				x := exchange(ctx, request)
				x.Wait(func() { time.Sleep(test.waited) })
				start := time.Now()
				x.Informer = informing(func(int, message.Fields) {})
				x.Start = start.Add(-test.began)
				err := g.Serve(x)
				if early := err != nil; early != test.early {
					t.Fatalf("Serve: %v", err)
				}
				if err == nil {
					_, err = io.Copy(io.Discard, x.Response.Body)
					x.Response.Close()
				}
				if took := time.Since(start); took != test.after {
					t.Errorf("it took %v, want %v", took, test.after)
				}
				failures := int64(0)
				if test.cause == "" {
					if err != nil {
						t.Errorf("got %v", err)
					}
				} else {
					if test.client {
						wantError(t, err, pipeline.RequestTimeout, 408)
					} else {
						failures = 1
						wantError(t, err, pipeline.UpstreamTimeout, 504)
					}
					if e := pipeline.AsError(err); e.Close != test.client {
						t.Errorf("the connection closes: %v", e.Close)
					}
					if !strings.HasSuffix(err.Error(), test.cause) {
						t.Errorf("got %v, want %s", err, test.cause)
					}
				}
				g.quiet(failures)
				cancel()
			})
		})
	}
}

// TestTimeThatWasOverBefore ends an exchange that has waited too long elsewhere without an
// attempt, for which an endpoint would be blamed.
func TestTimeThatWasOverBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Response: time.Second}}, &fake{}, model.Endpoint{URL: "http://e", Weight: 1})
		x := exchange(t.Context(), get("/"))
		x.Wait(func() { time.Sleep(time.Second) })
		g.fail(x, pipeline.UpstreamTimeout, 504)
		if x.Attempts != 0 {
			t.Errorf("%d attempts", x.Attempts)
		}
		g.quiet(0)
	})
}

func TestIdleTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Response: time.Second, Idle: 5 * time.Second, IdleStream: 20 * time.Second}},
			&fake{upgrade: true, pauses: seconds(19, 1000)}, model.Endpoint{URL: "http://e", Weight: 1})
		x := exchange(t.Context(), get("/", "Connection: Upgrade", "Upgrade: websocket"))
		start := time.Now()
		if err := g.Serve(x); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(30 * time.Second)
			_, _ = x.Response.Tunnel.Write([]byte("x")) // writing counts as well
		}()
		_, err := io.Copy(io.Discard, x.Response.Tunnel)
		wantError(t, err, pipeline.UpstreamTimeout, 504)
		if took := time.Since(start); took != 50*time.Second {
			t.Errorf("it took %v, want 50s", took)
		}
		x.Response.Close()
		g.quiet(1)
	})
}

// The endpoint may answer before the request's end comes; then nothing waits
// for a head any more.
func TestRequestThatEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := &spying{roundTripper: &fake{head: -1, pauses: seconds(9)}}
		limits := model.RouteTimeouts{Response: time.Second, Idle: 10 * time.Second, Total: 20 * time.Second}
		g := forward(t, &model.Route{Timeouts: limits}, spy, model.Endpoint{URL: "http://e", Weight: 1})
		x := exchange(t.Context(), post(drip(t.Context(), seconds(2)...), message.Unknown))
		if err := g.Serve(x); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(spy.body); string(text) != "." || err != nil {
			t.Errorf("the endpoint got %q, %v", text, err)
		}
		if spy.ctx.Err() != nil {
			t.Error("the attempt is over before its response")
		}
		if text := g.drain(x); text != "." {
			t.Errorf("the client got %q", text)
		}
		if spy.ctx.Err() == nil {
			t.Error("the attempt goes on after its response")
		}
		g.quiet(0)
	})
}

// spying shows what the transport is given.
type spying struct {
	roundTripper
	ctx  context.Context
	body io.Reader
}

func (s *spying) RoundTrip(ctx context.Context, request *message.Request, inform func(int, message.Fields)) (*message.Response, error) {
	s.ctx, s.body = ctx, request.Body
	return s.roundTripper.RoundTrip(ctx, request, inform)
}

// Over a real socket, as the clock there is the system's.
func TestSilentEndpoint(t *testing.T) {
	endpoint := scripted(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) })
	g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Response: 20 * time.Millisecond}}, nil, endpoint)
	g.fail(exchange(t.Context(), get("/")), pipeline.UpstreamTimeout, 504)
	g.quiet(1)
}

func TestSilentClient(t *testing.T) {
	endpoint := scripted(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) })
	for _, length := range []int64{message.Unknown, 9} {
		body, client := io.Pipe()
		go func() { _, _ = io.WriteString(client, "some") }()
		g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Idle: 50 * time.Millisecond}}, nil, endpoint)
		g.fail(exchange(t.Context(), post(body, length)), pipeline.RequestTimeout, 408)
		g.quiet(0)
		client.Close()
	}
}

// The endpoint that takes no more of the request is at fault, not the client
// that has to wait for it.
func TestEndpointThatTakesNothing(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	endpoint := scripted(t, func(p *peer) { p.head(); <-over })
	g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Idle: 100 * time.Millisecond}}, nil, endpoint)
	g.fail(exchange(t.Context(), post(endless{}, message.Unknown)), pipeline.UpstreamTimeout, 504)
	g.quiet(1)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// slowTaker is a transport whose endpoint takes its time before each part.
type slowTaker struct{ pause time.Duration }

func (s slowTaker) RoundTrip(ctx context.Context, request *message.Request, _ func(int, message.Fields)) (*message.Response, error) {
	defer request.Body.Close()
	for {
		if err := wait(ctx, s.pause); err != nil {
			return nil, err
		}
		if _, err := request.Body.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			return &message.Response{Status: 204, Length: message.Unknown}, nil
		} else if err != nil {
			return nil, err
		}
	}
}

// A client has the whole time from when it is asked, however long the endpoint
// took before.
func TestClientIsNotBlamedForTheEndpointsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Idle: 5 * time.Second}}, slowTaker{4 * time.Second}, model.Endpoint{URL: "http://e", Weight: 1})
		g.pass(exchange(t.Context(), post(drip(t.Context(), seconds(4, 4, 4)...), message.Unknown)))
		g.quiet(0)
	})
}

// early is a transport whose endpoint answers while it takes the request.
type early struct{ pauses []time.Duration }

func (e early) RoundTrip(ctx context.Context, request *message.Request, _ func(int, message.Fields)) (*message.Response, error) {
	go func() { _, _ = io.Copy(io.Discard, request.Body) }()
	return &message.Response{Status: 200, Length: message.Unknown, Body: &paced{ctx: ctx, pauses: e.pauses}}, nil
}

// An endpoint that stops in the middle of its answer is at fault, whatever the
// client has yet to send.
func TestSilenceBothWaysAfterTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Idle: 5 * time.Second}}, early{seconds(1, 100)}, model.Endpoint{URL: "http://e", Weight: 1})
		x := exchange(t.Context(), post(drip(t.Context(), seconds(50)...), message.Unknown))
		if err := g.Serve(x); err != nil {
			t.Fatal(err)
		}
		_, err := io.Copy(io.Discard, x.Response.Body)
		wantError(t, err, pipeline.UpstreamTimeout, 504)
		x.Response.Close()
		g.quiet(1)
	})
}
