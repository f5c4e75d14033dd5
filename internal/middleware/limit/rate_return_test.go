package limit_test

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/middleware/limit"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// TestRefusedFurtherIn costs nothing of the limits before, whatever refuses, and however
// these count; clients are told what is left then.
func TestRefusedFurtherIn(t *testing.T) {
	const (
		of   = "{rate_limit: {name: everybody, rate: 10/h, key: global"
		each = "{rate_limit: {name: each, rate: 1/h}}"
	)
	refuse := func(word pipeline.Word) pipeline.Handler {
		return pipeline.HandlerFunc(func(*pipeline.Exchange) error { return pipeline.NewError(word, nil) })
	}
	answered := func(status int) pipeline.Handler {
		return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
			x.Response = &message.Response{Status: status}
			return nil
		})
	}
	tried := pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		x.Attempts = 1
		return pipeline.NewError(pipeline.Overloaded, nil)
	})
	for _, c := range []struct {
		name, first, others string
		next                pipeline.Handler
		left                int64 // of ten, after five that did not come through
		policy              string
	}{
		{"by a limit of a client", of + "}}", each, nil, 9, "each"},
		{"of a window", of + ", algorithm: sliding_window}}", each, nil, 9, "each"},
		{"of what is usual", of + ", adaptive: {}}}", each, nil, 9, "each"},
		{"of what would be refused", of + ", mode: shadow}}", each, nil, 9, "each"},
		{"without its store", of + "}}", "{rate_limit: {name: each, rate: 1/h, store: main, on_store_failure: deny}}", nil, 10, "everybody"},
		{"without a store, by its share", of + ", store: main}}", each, nil, 9, "each"},
		{"by the limit of an upstream", of + "}}", "", refuse(pipeline.RateLimited), 10, "everybody"},
		{"by a concurrency limit", of + "}}", "", refuse(pipeline.Overloaded), 10, "everybody"},
		{"by two limits", of + "}}", "{rate_limit: {name: wide, rate: 20/h, key: global}}", refuse(pipeline.Overloaded), 10, "everybody"},
		{"by credentials", of + "}}", "", refuse(pipeline.Unauthenticated), 5, "everybody"},
		{"by an endpoint", of + "}}", "", answered(429), 5, "everybody"},
		{"after an attempt", of + "}}", "", tried, 5, "everybody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			next := c.next
			if next == nil {
				next = answer
			}
			h := b.chain(c.first+", "+c.others, next)
			var last *pipeline.Exchange
			for range 5 {
				last = request(t.Context(), "192.0.2.1")
				_ = h.Serve(last)
				last.End()
			}
			var fields message.Fields
			last.Standing.Put(&fields)
			if policy, _ := fields.Find("RateLimit-Policy"); !strings.HasPrefix(policy, `"`+c.policy+`"`) {
				t.Errorf("clients are told of %s", policy)
			}
			if c.policy == "everybody" && last.Standing.Remaining != c.left {
				t.Errorf("clients are told %+v, want %d", last.Standing, c.left)
			}
			passed := int64(0)
			alone := b.chain(c.first, answer)
			for range 20 {
				if alone.Serve(request(t.Context(), "192.0.2.2")) == nil {
					passed++
				}
			}
			if shadow := b.counted("everybody shadow_deny"); shadow > 0 {
				passed -= int64(shadow)
			}
			if passed != c.left {
				t.Errorf("%d more pass, want %d", passed, c.left)
			}
		})
	}
}

// TestUpstreamRefuses costs nothing of the limit of a client.
func TestUpstreamRefuses(t *testing.T) {
	b := newBed(t)
	site := &pipeline.Site{Leases: b.registry.NewSet(), Decisions: b.decisions, Show: b.show}
	defer site.Leases.Release()
	admit := limit.Upstream(site, &model.Upstream{Name: "up", RateLimit: &model.RateLimit{Count: 1, Per: time.Hour, Burst: 3}})
	h := b.chain("{rate_limit: {name: each, rate: 10/h}}", pipeline.HandlerFunc(admit))
	of := func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1") }
	if got := b.passes(h, 20, pipeline.RateLimited, of); got != 3 {
		t.Errorf("%d passed of three", got)
	}
	if got := b.counted("each allow"); got != 20 {
		t.Errorf("the limit of the client has let %d of 20 through", got)
	}
}
