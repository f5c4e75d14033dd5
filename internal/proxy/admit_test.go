package proxy_test

import (
	"context"
	"testing"

	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/proxy"
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
