package proxy_test

import (
	"context"
	"testing"
	"testing/synctest"

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
			there.Admit = func(*pipeline.Exchange) error {
				if asked++; refuses {
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
