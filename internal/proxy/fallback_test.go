package proxy_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/proxy"
	"sluice/internal/upstream"
)

// breaking is a circuit breaker that opens with the first failure.
func breaking(scope string) *model.CircuitBreaker {
	return &model.CircuitBreaker{Scope: scope, Window: 10 * time.Second, Consecutive: 1, FailureStatus: []int{500}, OpenFor: time.Hour, MaxConcurrent: 1, Successes: 1}
}

// replying is a fallback that answers by itself.
func replying(text string) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		x.Response = &message.Response{Status: 203, Body: message.Text(text), Length: int64(len(text))}
		return nil
	})
}

// TestFallback serves while the circuit breaker is open, and only what was not tried.
func TestFallback(t *testing.T) {
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		for _, scope := range []string{model.ScopeUpstream, model.ScopeEndpoint} {
			t.Run(scope, func(t *testing.T) {
				failing, _ := recording(t, say("500 No", "sorry"))
				failing.Version = "v1"
				target := to("up", failing)
				target.upstream.Breaker, target.fallback = breaking(scope), replying("instead")
				f := serve(t, way, retrying(), target)
				f.wants(requestOf("GET", ""), 500, "sorry") // what opens it was tried
				if x := f.over(); x.Version != "v1" {
					t.Errorf("version %q", x.Version)
				}
				head := f.wants(requestOf("GET", ""), 203, "instead")
				if x := f.over(); x.Attempts != 0 || x.Version != "" || x.Upstream != "up" || valueOf(head, "X-Backend-Version") != "" {
					t.Errorf("%d attempts, version %q, %s", x.Attempts, x.Version, head)
				}
			})
		}
	})
}

// TestFallbackToAnotherUpstream gets the request whole, with its body, under the
// route's rules.
func TestFallbackToAnotherUpstream(t *testing.T) {
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		failing, _ := recording(t, say("500 No", "sorry"))
		target, other := to("up", failing), to("other", gone(t), echoing(t))
		target.upstream.Breaker, target.instead = breaking(model.ScopeUpstream), &other
		f := serve(t, way, retrying(), target)
		f.wants(requestOf("GET", ""), 500, "sorry")
		f.over()
		head := f.wants(requestOf("PUT", "hello"), 200, "hello")
		if x := f.over(); x.Attempts != 2 || x.Upstream != "other" || valueOf(head, "X-Sluice-Attempts") != "2" {
			t.Errorf("%d attempts at %s: %s", x.Attempts, x.Upstream, head)
		}
	})
}

// behindBreaker is a route to an upstream with a circuit breaker, over a transport
// that stands in.
func behindBreaker(t *testing.T, breaker *model.CircuitBreaker, fallback pipeline.Handler, list ...step) *gateway {
	t.Helper()
	set := new(lease.Registry).NewSet()
	t.Cleanup(set.Release)
	m := &model.Upstream{Name: "up", Endpoints: endpointsOf(1), Breaker: breaker}
	transport := &steps{list: list}
	group := upstream.Acquire(set, m, upstream.Connect{Transport: func(*lease.Set, *model.Upstream, model.Endpoint) pipeline.Transport { return onContext{transport} }}, nil)
	route := retrying(upTo(5))
	route.Upstream = m
	return &gateway{t, route, group, proxy.New(route, []proxy.Side{{Group: group, Fallback: fallback}}, proxy.Gateway{})}
}

// TestBreakerThatOpensInAPause ends what was tried already, without the fallback.
func TestBreakerThatOpensInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := behindBreaker(t, breaking(model.ScopeUpstream), replying("instead"), answers(0, 503, "Retry-After: 5"), fails(0, pipeline.UpstreamReset, false))
		time.AfterFunc(2*time.Second, func() { _ = g.Serve(exchange(t.Context(), get("/"))) })
		x := exchange(t.Context(), get("/"))
		g.fail(x, pipeline.CircuitOpen, 503)
		if x.Attempts != 1 {
			t.Errorf("%d attempts", x.Attempts)
		}
		g.idle()
	})
}

// TestPanicGivesAProbeBack, or the circuit breaker would never close again.
func TestPanicGivesAProbeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := breaking(model.ScopeUpstream)
		breaker.OpenFor = time.Second
		panics := func(context.Context, *message.Request) (*message.Response, error) { panic("deliberate") }
		g := behindBreaker(t, breaker, nil, fails(0, pipeline.UpstreamReset, false), panics, answers(0, 200))
		g.fail(exchange(t.Context(), get("/")), pipeline.UpstreamReset, 502)
		time.Sleep(time.Second)
		func() {
			defer func() { _ = recover() }()
			_ = g.Serve(exchange(t.Context(), get("/")))
		}()
		g.pass(exchange(t.Context(), get("/")))
		g.idle()
	})
}

// TestNoFallback where something else is wrong than an open circuit breaker.
func TestNoFallback(t *testing.T) {
	for name, c := range map[string]struct {
		endpoints []model.Endpoint
		fallback  pipeline.Handler
		word      pipeline.Word
		status    int
	}{
		"no endpoint":      {nil, replying("instead"), pipeline.NoEndpoint, 503},
		"it was tried":     {endpointsOf(1), replying("instead"), pipeline.UpstreamReset, 502},
		"there is none":    {endpointsOf(1), nil, pipeline.UpstreamReset, 502},
		"it fails as well": {endpointsOf(1), pipeline.HandlerFunc(func(*pipeline.Exchange) error { return errors.New("no") }), pipeline.UpstreamReset, 502},
	} {
		var registry lease.Registry
		set := registry.NewSet()
		m := &model.Upstream{Name: "up", Endpoints: c.endpoints, Breaker: breaking(model.ScopeUpstream)}
		transport := &steps{list: []step{fails(0, pipeline.UpstreamReset, false)}}
		group := upstream.Acquire(set, m, upstream.Connect{Transport: func(*lease.Set, *model.Upstream, model.Endpoint) pipeline.Transport { return onContext{transport} }}, nil)
		route := retrying(upTo(5))
		route.Upstream = m
		g := &gateway{t, route, group, proxy.New(route, []proxy.Side{{Group: group, Fallback: c.fallback}}, proxy.Gateway{})}
		x := exchange(t.Context(), get("/", "X-Sluice-Attempts: ?"))
		// The breaker opens with the first attempt: another one does not follow, and what
		// there is goes to the client.
		g.fail(x, c.word, c.status)
		if x.Attempts > 1 {
			t.Errorf("%s: %d attempts", name, x.Attempts)
		}
		g.idle()
		if c.word == pipeline.NoEndpoint {
			set.Release()
			continue
		}
		err := g.Serve(exchange(t.Context(), get("/", "X-Sluice-Attempts: ?")))
		switch e := pipeline.AsError(err); {
		case name == "it was tried":
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case name == "it fails as well":
			wantError(t, err, pipeline.Internal, 500)
		default:
			wantError(t, err, pipeline.CircuitOpen, 503)
			if e.Fields.Get(message.RetryAfter) != "3600" || e.Fields.Get(message.XSluiceAttempts) != "0" {
				t.Errorf("%s: %s", name, fieldText(e.Fields))
			}
		}
		g.idle()
		set.Release()
	}
}
