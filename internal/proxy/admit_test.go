package proxy_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/proxy"
	"sluice/internal/upstream"
)

// TestAdmit asks once for each exchange, before any attempt.
func TestAdmit(t *testing.T) {
	endpoint, heads := recording(t, okay)
	route := &model.Route{}
	g := forward(t, route, nil, endpoint)
	asked := 0
	g.Handler = proxy.New(route, []proxy.Side{{Group: g.group, Admit: func(x *pipeline.Exchange) error {
		if asked++; asked > 1 {
			return pipeline.NewError(pipeline.RateLimited, nil)
		}
		if x.Upstream != "up" || x.Attempts != 0 {
			t.Errorf("asked with upstream %q, after %d attempts", x.Upstream, x.Attempts)
		}
		return nil
	}}}, proxy.Gateway{})
	x := exchange(context.Background(), get("/"))
	if err := g.Serve(x); err != nil {
		t.Fatal(err)
	}
	if err := x.Response.Close(); err != nil {
		t.Error(err)
	}
	x = exchange(context.Background(), get("/"))
	if e := pipeline.AsError(g.Serve(x)); e == nil || e.Word != pipeline.RateLimited || x.Attempts != 0 {
		t.Errorf("%v after %d attempts", e, x.Attempts)
	}
	if len(heads) != 1 {
		t.Errorf("the endpoint was asked %d times", len(heads))
	}
	g.quiet(0)
}

// TestAdmitElsewhere asks the limit of another side before a repetition goes there; one
// that refuses lets the client have what there is.
func TestAdmitElsewhere(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			set := new(lease.Registry).NewSet()
			defer set.Release()
			side := func(name string, weight int, what step) proxy.Side {
				m := &model.Upstream{Name: name, Endpoints: endpointsOf(1)}
				transport := &steps{list: []step{what}}
				connect := upstream.Connect{Transport: func(*lease.Set, *model.Upstream, model.Endpoint) pipeline.Transport { return onContext{transport} }}
				return proxy.Side{Group: upstream.Acquire(set, m, connect, nil), Weight: weight}
			}
			asked := 0
			here, there := side("here", 1<<30, fails(0, pipeline.UpstreamReset, false)), side("there", 1, answers(0, 200))
			there.Admit = func(x *pipeline.Exchange) error {
				if asked++; refuses {
					x.Stand(pipeline.Standing{Policy: pipeline.NewPolicy("there", 1, time.Second), Denied: true})
					return pipeline.NewError(pipeline.RateLimited, nil)
				}
				return nil
			}
			route := retrying()
			route.Split = &model.Split{Failover: true}
			x := exchange(t.Context(), get("/"))
			err := proxy.New(route, []proxy.Side{here, there}, proxy.Gateway{}).Serve(x)
			if refuses != (pipeline.AsError(err) != nil && pipeline.AsError(err).Word == pipeline.UpstreamReset) || asked != 1 {
				t.Errorf("refuses: %v: %v, asked %d times", refuses, err, asked)
			}
			if x.Standing.Policy != nil {
				t.Errorf("the client is told of the limit of a side that it does not come to: %+v", x.Standing)
			}
			if err == nil {
				if err := x.Response.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, s := range []proxy.Side{here, there} {
				if inFlight, repeating := s.Group.Budget().Status(); inFlight != 0 || repeating != 0 {
					t.Errorf("%d in flight, %d repeating", inFlight, repeating)
				}
			}
		})
	}
}

// TestAdmitBehindBreaker asks the limit of an upstream for nothing that does not reach it; a
// probe that the limit refuses leaves its place to others.
func TestAdmitBehindBreaker(t *testing.T) {
	for _, scope := range []string{model.ScopeUpstream, model.ScopeEndpoint} {
		synctest.Test(t, func(t *testing.T) {
			breaker := breaking(scope)
			breaker.OpenFor = time.Second
			g := behindBreaker(t, breaker, nil, fails(0, pipeline.UpstreamReset, false), answers(0, 200))
			asked, refuses := 0, false
			g.Handler = proxy.New(g.route, []proxy.Side{{Group: g.group, Fallback: replying("instead"), Admit: func(*pipeline.Exchange) error {
				if asked++; refuses {
					return pipeline.NewError(pipeline.RateLimited, nil)
				}
				return nil
			}}}, proxy.Gateway{})
			g.fail(exchange(t.Context(), get("/")), pipeline.UpstreamReset, 502)
			for range 3 {
				if x := exchange(t.Context(), get("/")); g.Serve(x) != nil || x.Response.Status != 203 {
					t.Errorf("%s: no fallback", scope)
				}
			}
			if asked != 1 {
				t.Errorf("%s: asked %d times", scope, asked)
			}
			time.Sleep(time.Second)
			for refuses = true; asked < 4; {
				x := exchange(t.Context(), get("/"))
				g.fail(x, pipeline.RateLimited, 429)
				if x.Attempts != 0 {
					t.Errorf("%s: %d attempts", scope, x.Attempts)
				}
			}
			refuses = false
			g.pass(exchange(t.Context(), get("/")))
			g.idle()
			if s := g.group.Status(time.Now()).Endpoints[0]; s.Requests != 2 {
				t.Errorf("%s: %d attempts are shown", scope, s.Requests)
			}
		})
	}
}
