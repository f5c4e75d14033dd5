package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// steps is a transport whose attempts go as the test has it, one after another; the
// last goes on. It notes when each began.
type steps struct {
	list []step

	mu    sync.Mutex
	asked []message.Request
	began []time.Time
}

// step is how an attempt goes.
type step func(ctx context.Context, request *message.Request) (*message.Response, error)

func (s *steps) RoundTrip(ctx context.Context, request *message.Request, _ func(int, message.Fields)) (*message.Response, error) {
	s.mu.Lock()
	n := min(len(s.asked), len(s.list)-1)
	s.asked, s.began = append(s.asked, *request), append(s.began, time.Now())
	s.mu.Unlock()
	if request.Body != nil {
		defer request.Body.Close()
	}
	return s.list[n](ctx, request)
}

// answers is a step with a status, after some time.
func answers(after time.Duration, status int, fields ...string) step {
	return func(ctx context.Context, _ *message.Request) (*message.Response, error) {
		if err := wait(ctx, after); err != nil {
			return nil, err
		}
		r := &message.Response{Status: status, Length: message.Unknown}
		for _, field := range fields {
			name, value, _ := strings.Cut(field, ": ")
			r.Fields.Add(name, value)
		}
		return r, nil
	}
}

// fails is a step that fails, after some time.
func fails(after time.Duration, word pipeline.Word, unsent bool) step {
	return func(ctx context.Context, _ *message.Request) (*message.Response, error) {
		if err := wait(ctx, after); err != nil {
			return nil, err
		}
		e := pipeline.NewError(word, nil)
		e.Unsent = unsent
		return nil, e
	}
}

// hangs is a step that takes the body and goes on for ever.
func hangs(ctx context.Context, request *message.Request) (*message.Response, error) {
	if request.Body != nil {
		read := make(chan error, 1)
		go func() { _, err := io.Copy(io.Discard, request.Body); read <- err }()
		select {
		case err := <-read:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return nil, fmt.Errorf("ended: %w", context.Cause(ctx))
}

// endpointsOf are n endpoints for a transport that stands in.
func endpointsOf(n int) []model.Endpoint {
	list := make([]model.Endpoint, n)
	for i := range list {
		list[i] = model.Endpoint{URL: "http://e" + itoa(i), Weight: 1}
	}
	return list
}

// idle checks that nothing of an exchange is left.
func (g *gateway) idle() {
	g.t.Helper()
	status := g.group.Status(time.Now())
	for _, e := range status.Endpoints {
		if e.Active != 0 {
			g.t.Errorf("%s has %d attempts", e.URL, e.Active)
		}
	}
	if status.InFlight != 0 || status.Repeating != 0 {
		g.t.Errorf("%d exchanges are in flight, %d repetitions", status.InFlight, status.Repeating)
	}
}

const s = time.Second

func limited(limits model.RouteTimeouts, edits ...func(r *model.Retry)) *model.Route {
	route := retrying(edits...)
	route.Timeouts = limits
	return route
}

// TestTimeOfATry, which the others go on over.
func TestTimeOfATry(t *testing.T) {
	perTry := func(d time.Duration) func(r *model.Retry) {
		return func(r *model.Retry) { r.PerTry, r.On.Timeout = d, false }
	}
	for name, c := range map[string]struct {
		route     *model.Route
		endpoints int
		body      []time.Duration // of the request; nil: none
		method    string
		list      []step
		attempts  int
		least     time.Duration
		most      time.Duration // with the pauses
		cause     string        // of the error; "" for none
	}{
		"the second answers":           {retrying(perTry(2 * s)), 2, nil, "GET", []step{hangs, answers(s, 200)}, 2, 3 * s, 3*s + 25*time.Millisecond, ""},
		"the same endpoint answers":    {retrying(perTry(2 * s)), 1, nil, "GET", []step{hangs, answers(s, 200)}, 2, 3 * s, 3*s + 25*time.Millisecond, ""},
		"none answers":                 {retrying(perTry(2*s), upTo(3)), 2, nil, "GET", []step{hangs}, 3, 6 * s, 6*s + 75*time.Millisecond, "per_try_timeout of 2s"},
		"it may not be repeated":       {retrying(perTry(2 * s)), 2, nil, "POST", []step{hangs}, 1, 2 * s, 2 * s, "per_try_timeout of 2s"},
		"the route's time is over":     {limited(model.RouteTimeouts{Response: 5 * s}, perTry(2*s), upTo(9)), 2, nil, "GET", []step{hangs}, 3, 5 * s, 5 * s, "timeout of 5s"},
		"the exchange's time is over":  {limited(model.RouteTimeouts{Total: 3 * s}, perTry(2*s), upTo(9)), 2, nil, "GET", []step{hangs}, 2, 3 * s, 3 * s, "total_timeout of 3s"},
		"a try is bytes that pass":     {limited(model.RouteTimeouts{Idle: 3 * s}, perTry(2*s), upTo(3)), 2, nil, "GET", []step{hangs, hangs, answers(s, 200)}, 3, 5 * s, 5*s + 75*time.Millisecond, ""},
		"silence is no try":            {limited(model.RouteTimeouts{Idle: s}, perTry(2*s), upTo(3)), 2, nil, "GET", []step{hangs}, 1, s, s, "idle_timeout of 1s"},
		"the client's time is none":    {retrying(perTry(2 * s)), 2, seconds(3, 3, 1), "PUT", []step{hangs, answers(s, 200)}, 2, 10 * s, 10*s + 25*time.Millisecond, ""},
		"the other attempt's is whole": {retrying(perTry(2 * s)), 2, seconds(1), "PUT", []step{hangs, answers(1900*time.Millisecond, 200)}, 2, 4900 * time.Millisecond, 4900*time.Millisecond + 25*time.Millisecond, ""},
		"the answer's body has more":   {retrying(perTry(2 * s)), 2, nil, "GET", []step{streams(5, 5)}, 1, 10 * s, 10 * s, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := &steps{list: c.list}
				g := forward(t, c.route, transport, endpointsOf(c.endpoints)...)
				request := get("/")
				if c.body != nil {
					request = post(drip(t.Context(), c.body...), message.Unknown)
				}
				request.Method = c.method
				x := exchange(t.Context(), request)
				start := time.Now()
				err := g.Serve(x)
				if err == nil {
					g.drain(x)
				}
				if took := time.Since(start); took < c.least || took > c.most {
					t.Errorf("it took %v", took)
				}
				switch {
				case c.cause == "" && err != nil, c.cause != "" && (err == nil || !strings.HasSuffix(err.Error(), c.cause)):
					t.Errorf("got %v", err)
				}
				if x.Attempts != c.attempts {
					t.Errorf("%d attempts", x.Attempts)
				}
				g.idle()
			})
		})
	}
}

// streams is a step that answers at once, with a body whose bytes wait.
func streams(pauses ...int) step {
	return func(ctx context.Context, _ *message.Request) (*message.Response, error) {
		return &message.Response{Status: 200, Length: message.Unknown, Body: &paced{ctx: ctx, pauses: seconds(pauses...)}}, nil
	}
}

// TestPauses grow, up to a second, and are none where another endpoint is there and
// nothing was sent, or it is the first one.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var longest [12]time.Duration
		for range 200 {
			transport := &steps{list: []step{fails(0, pipeline.UpstreamReset, false)}}
			g := forward(t, retrying(upTo(len(longest)+1)), transport, endpointsOf(2)...)
			g.fail(exchange(t.Context(), get("/")), pipeline.UpstreamReset, 502)
			for i := range longest {
				longest[i] = max(longest[i], transport.began[i+1].Sub(transport.began[i]))
			}
			g.idle()
		}
		for i, got := range longest {
			most := min(25*time.Millisecond<<i, s)
			if i == 0 {
				most = 0
			}
			if got > most || got < most*3/4 { // of 200, with full jitter
				t.Errorf("the longest pause number %d of 200 is %v; it may be %v", i+1, got, most)
			}
		}
		transport := &steps{list: []step{fails(0, pipeline.UpstreamConnect, true)}}
		g := forward(t, retrying(upTo(4)), transport, endpointsOf(4)...)
		start := time.Now()
		g.fail(exchange(t.Context(), get("/")), pipeline.UpstreamConnect, 502)
		if took := time.Since(start); took != 0 || len(transport.began) != 4 {
			t.Errorf("%d attempts took %v", len(transport.began), took)
		}
	})
}

// TestRetryAfter is heeded where the endpoint is the only one.
func TestRetryAfter(t *testing.T) {
	const jitter = 25 * time.Millisecond
	for name, c := range map[string]struct {
		endpoints int
		limits    model.RouteTimeouts
		value     func(now time.Time) string
		attempts  int
		least     time.Duration
	}{
		"seconds":               {1, model.RouteTimeouts{}, func(time.Time) string { return "7" }, 2, 7 * s},
		"a date":                {1, model.RouteTimeouts{}, func(now time.Time) string { return now.Add(9 * s).Format("Mon, 02 Jan 2006 15:04:05 GMT") }, 2, 9 * s},
		"an old date":           {1, model.RouteTimeouts{}, func(now time.Time) string { return now.Add(9 * s).Format("Monday, 02-Jan-06 15:04:05 GMT") }, 2, 9 * s},
		"an older date":         {1, model.RouteTimeouts{}, func(now time.Time) string { return now.Add(9 * s).Format(time.ANSIC) }, 2, 9 * s},
		"a date that is over":   {1, model.RouteTimeouts{}, func(now time.Time) string { return now.Add(-9 * s).Format("Mon, 02 Jan 2006 15:04:05 GMT") }, 2, 0},
		"nonsense":              {1, model.RouteTimeouts{}, func(time.Time) string { return "soon" }, 2, 0},
		"less than nothing":     {1, model.RouteTimeouts{}, func(time.Time) string { return "-7" }, 2, 0},
		"more than there is":    {1, model.RouteTimeouts{Response: 5 * s}, func(time.Time) string { return "7" }, 1, 0},
		"more than is waited":   {1, model.RouteTimeouts{Idle: 5 * s}, func(time.Time) string { return "7" }, 1, 0},
		"another one is there":  {2, model.RouteTimeouts{}, func(time.Time) string { return "7" }, 2, 0},
		"longer than any pause": {1, model.RouteTimeouts{}, func(time.Time) string { return "9999999999999" }, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now().UTC()
			transport := &steps{list: []step{answers(0, 503, "Retry-After: "+c.value(start)), answers(0, 200)}}
			g := forward(t, limited(c.limits), transport, endpointsOf(c.endpoints)...)
			x := exchange(t.Context(), get("/"))
			g.pass(x)
			if took := time.Since(start); took < c.least || took > c.least+jitter || x.Attempts != c.attempts {
				t.Errorf("%s: %d attempts took %v", name, x.Attempts, took)
			}
			if c.attempts == 1 && x.Response.Fields.Get(message.RetryAfter) == "" {
				t.Errorf("%s: the client is not told", name)
			}
			g.idle()
		})
	}
}

// TestClientThatLeavesInAPause ends the exchange at once.
func TestClientThatLeavesInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &steps{list: []step{answers(0, 503, "Retry-After: 100")}}
		g := forward(t, retrying(), transport, endpointsOf(1)...)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*s, func() { cancel(pipeline.ErrClientGone) })
		start := time.Now()
		x := exchange(ctx, get("/"))
		g.fail(x, pipeline.ClientClosed, 499)
		if took := time.Since(start); took != 5*s || x.Attempts != 1 {
			t.Errorf("%d attempts took %v", x.Attempts, took)
		}
		g.idle()
	})
}

// TestClientThatLeavesInAnAttempt is no reason for another one.
func TestClientThatLeavesInAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := forward(t, retrying(upTo(5)), &steps{list: []step{hangs}}, endpointsOf(3)...)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*s, func() { cancel(pipeline.ErrClientGone) })
		x := exchange(ctx, get("/"))
		g.fail(x, pipeline.ClientClosed, 499)
		if x.Attempts != 1 {
			t.Errorf("%d attempts", x.Attempts)
		}
		g.idle()
		g.quiet(0)
	})
}

// TestDeadlinesOfRepeatedCalls: each endpoint is given what is left.
func TestDeadlinesOfRepeatedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &steps{list: []step{fails(2*s, pipeline.UpstreamConnect, true), fails(2*s, pipeline.UpstreamConnect, true), hangs}}
		g := forward(t, retrying(upTo(9)), transport, endpointsOf(9)...)
		x := calling(t, strings.NewReader(""), "grpc-timeout: 5S")
		err := g.Serve(x)
		if e := pipeline.AsError(err); e == nil || e.Word != pipeline.UpstreamTimeout || e.Fault != pipeline.Client {
			t.Errorf("got %v", err)
		}
		for i, want := range []string{"5S", "3000000u", "1000000u"} {
			if got := transport.asked[i].Fields.Get(message.GRPCTimeout); got != want {
				t.Errorf("attempt %d was given %s", i+1, got)
			}
		}
		if x.Attempts != 3 {
			t.Errorf("%d attempts", x.Attempts)
		}
		g.quiet(2)
		g.idle()
	})
}

// TestBudgetIsKept holds as many repetitions as there may be, and lets no other one
// begin meanwhile.
func TestBudgetIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, share = 40, 0.2 // more than the three that there may be always
		var busy, most int
		var mu sync.Mutex
		failing := func(ctx context.Context, _ *message.Request) (*message.Response, error) {
			mu.Lock()
			busy++
			most = max(most, busy)
			mu.Unlock()
			defer func() {
				mu.Lock()
				busy--
				mu.Unlock()
			}()
			if err := wait(ctx, s); err != nil {
				return nil, err
			}
			return nil, pipeline.NewError(pipeline.UpstreamReset, nil)
		}
		transport := &steps{}
		for range clients { // all of them fail at once, thereafter they are slow
			transport.list = append(transport.list, fails(s, pipeline.UpstreamReset, false))
		}
		transport.list = append(transport.list, failing)
		g := forward(t, retrying(func(r *model.Retry) { r.Budget = share }), transport, endpointsOf(2)...)
		var done sync.WaitGroup
		for range clients {
			done.Go(func() {
				if err := g.Serve(exchange(t.Context(), get("/"))); err == nil {
					t.Error("it was served")
				}
			})
		}
		done.Wait()
		if most < 3 || most > clients*share || len(transport.asked) < clients+3 {
			t.Errorf("%d repetitions at once, %d attempts", most, len(transport.asked))
		}
		g.idle()
	})
}

// TestPanicsLeaveNothingBehind: those of a body or an informer end the exchange.
func TestPanicsLeaveNothingBehind(t *testing.T) {
	for _, attempt := range []int{1, 2} {
		list := []step{fails(0, pipeline.UpstreamReset, false), func(context.Context, *message.Request) (*message.Response, error) { panic("deliberate") }}
		g := forward(t, retrying(upTo(5)), &steps{list: list[2-attempt:]}, endpointsOf(3)...)
		closed := 0
		request := post(nil, 5)
		request.Method, request.Body = "PUT", &counted{Reader: strings.NewReader("hello"), closed: &closed}
		func() {
			defer func() {
				if recover() != "deliberate" {
					t.Error("the panic did not go on")
				}
			}()
			_ = g.Serve(exchange(t.Context(), request))
		}()
		g.idle()
		if closed != 1 {
			t.Errorf("the body was closed %d times", closed)
		}
	}
}

// counted counts how often it is closed.
type counted struct {
	io.Reader
	closed *int
}

func (c *counted) Close() error {
	*c.closed++
	return nil
}

// TestClientsBodyIsClosedOnce, when no other attempt follows.
func TestClientsBodyIsClosedOnce(t *testing.T) {
	reads := func(then step) step {
		return func(ctx context.Context, request *message.Request) (*message.Response, error) {
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return nil, err
			}
			return then(ctx, request)
		}
	}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		list []step
		body io.Reader
	}{
		"answered":           {[]step{reads(answers(0, 200))}, nil},
		"answered unread":    {[]step{answers(0, 200)}, nil},
		"repeated":           {[]step{reads(answers(0, 503)), reads(answers(0, 200))}, nil},
		"repeated unread":    {[]step{answers(0, 503), answers(0, 200)}, nil},
		"never answered":     {[]step{reads(fails(0, pipeline.UpstreamReset, false))}, nil},
		"the client's fault": {[]step{reads(answers(0, 200))}, io.MultiReader(strings.NewReader("he"), failingReader{broken})},
	} {
		closed := 0
		g := forward(t, retrying(upTo(3)), &steps{list: c.list}, endpointsOf(3)...)
		request := post(nil, 5)
		if c.body == nil {
			c.body = strings.NewReader("hello")
		}
		request.Method, request.Body = "PUT", &counted{Reader: c.body, closed: &closed}
		x := exchange(t.Context(), request)
		if err := g.Serve(x); err == nil {
			g.drain(x)
		}
		if closed != 1 {
			t.Errorf("%s: the body was closed %d times", name, closed)
		}
		g.idle()
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// TestFaultsOfClients are none that another endpoint mends.
func TestFaultsOfClients(t *testing.T) {
	g := forward(t, retrying(func(r *model.Retry) { r.On.Status = []int{413} }), &steps{list: []step{fails(0, pipeline.BodyTooLarge, true)}}, endpointsOf(2)...)
	x := exchange(t.Context(), get("/"))
	g.fail(x, pipeline.BodyTooLarge, 413)
	if x.Attempts != 1 {
		t.Errorf("%d attempts", x.Attempts)
	}
	g.idle()
}

// TestTimeThatIsOver is over also for what was never sent.
func TestTimeThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connecting := func(ctx context.Context, _ *message.Request) (*message.Response, error) {
			<-ctx.Done()
			e := pipeline.NewError(pipeline.UpstreamTimeout, nil)
			e.Unsent = true
			return nil, e
		}
		g := forward(t, limited(model.RouteTimeouts{Response: s}, upTo(9)), &steps{list: []step{connecting}}, endpointsOf(9)...)
		x := exchange(t.Context(), get("/"))
		g.fail(x, pipeline.UpstreamTimeout, 504)
		if x.Attempts != 1 {
			t.Errorf("%d attempts", x.Attempts)
		}
		g.idle()
	})
}

// TestErrorsThatAreShared are not changed: many exchanges may have one.
func TestErrorsThatAreShared(t *testing.T) {
	shared := pipeline.NewError(pipeline.UpstreamConnect, nil)
	g := forward(t, retrying(), &steps{list: []step{func(context.Context, *message.Request) (*message.Response, error) { return nil, shared }}}, endpointsOf(2)...)
	err := g.Serve(exchange(t.Context(), get("/", "X-Sluice-Attempts: ?")))
	if e := pipeline.AsError(err); e == nil || e.Fields.Get(message.XSluiceAttempts) != "2" || len(shared.Fields) != 0 {
		t.Errorf("%v, and the shared one has %q", err, fieldText(shared.Fields))
	}
}
