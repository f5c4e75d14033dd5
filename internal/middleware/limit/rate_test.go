package limit_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/middleware/limit"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/ratelimit"
)

func TestRateKeys(t *testing.T) {
	ctx := t.Context()
	from := func(client string, fields ...string) func() *pipeline.Exchange {
		return func() *pipeline.Exchange { return request(ctx, client, fields...) }
	}
	gold := func() *pipeline.Exchange {
		x := request(ctx, "192.0.2.9")
		x.Consumer, x.Principal = "c", &pipeline.Principal{Tier: "gold"}
		return x
	}
	for _, c := range []struct {
		options string
		of      []func() *pipeline.Exchange
		want    []int // that pass of ten each
	}{
		{"rate: 2/h", []func() *pipeline.Exchange{from("192.0.2.1"), from("192.0.2.2"), from("192.0.2.1")}, []int{2, 2, 0}},
		{"rate: 2/h, burst: 4", []func() *pipeline.Exchange{from("192.0.2.1")}, []int{4}},
		{"rate: 4/h, cost: 2", []func() *pipeline.Exchange{from("192.0.2.1")}, []int{2}},
		{"rate: 3/h, algorithm: sliding_window", []func() *pipeline.Exchange{from("192.0.2.1")}, []int{3}},
		{"rate: 2/h, key: global", []func() *pipeline.Exchange{from("192.0.2.1"), from("192.0.2.2")}, []int{2, 0}},
		{"rate: 2/h, key: \"header:X-App\"", []func() *pipeline.Exchange{from("192.0.2.1", "X-App: a"), from("192.0.2.1", "X-App: b"), from("192.0.2.1"), from("192.0.2.2")}, []int{2, 2, 2, 0}},
		{"rate: 2/h, key: [client_ip, \"header:X-App\"]", []func() *pipeline.Exchange{from("192.0.2.1", "X-App: a"), from("192.0.2.1", "X-App: b"), from("192.0.2.2", "X-App: a"), from("192.0.2.1", "X-App: a")}, []int{2, 2, 2, 0}},
		{"rate: 2/h, key: [\"header:A\", \"header:B\"]", []func() *pipeline.Exchange{from("192.0.2.1", "A: x1", "B: y"), from("192.0.2.1", "A: x", "B: 1y")}, []int{2, 2}},
		{"rate: 2/h, tier_by: \"header:Tier\", tiers: {gold: {rate: 5/h}}", []func() *pipeline.Exchange{from("192.0.2.1", "Tier: gold"), from("192.0.2.1"), from("192.0.2.2", "Tier: tin")}, []int{5, 2, 2}},
		{"rate: 2/h, tiers: {gold: {rate: 1/h, burst: 6}}", []func() *pipeline.Exchange{gold, from("192.0.2.9")}, []int{6, 2}},
	} {
		t.Run(c.options, func(t *testing.T) {
			b := newBed(t)
			h := b.chain("{rate_limit: {"+c.options+"}}", answer)
			for i, of := range c.of {
				if got := b.passes(h, 10, pipeline.RateLimited, of); got != c.want[i] {
					t.Errorf("%d of the %d. sort passed, want %d", got, i+1, c.want[i])
				}
			}
		})
	}
}

// TestRateStanding tells how an exchange stands, and counts.
func TestRateStanding(t *testing.T) {
	b := newBed(t)
	h := b.chain("{rate_limit: {name: wide, rate: 100/h}}, {rate_limit: {rate: 2/m, burst: 3, tiers: {gold: {rate: 9/s}}, tier_by: \"header:T\"}}", answer)
	of := func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1") }
	x := of()
	if err := h.Serve(x); err != nil {
		t.Fatal(err)
	}
	var fields message.Fields
	x.Standing.Put(&fields)
	if policy, _ := fields.Find("RateLimit-Policy"); policy != `"r rate_limit 1";q=3;w=90` {
		t.Errorf("the policy is %s", policy)
	}
	if limit, _ := fields.Find("RateLimit"); limit != `"r rate_limit 1";r=2;t=30` {
		t.Errorf("the standing is %s", limit)
	}
	if got := b.passes(h, 5, pipeline.RateLimited, of); got != 2 {
		t.Errorf("%d more passed", got)
	}
	x = of()
	err := pipeline.AsError(h.Serve(x))
	if retry := err.Fields.Get(message.RetryAfter); retry != "30" || !x.Standing.Denied || x.Standing.Remaining != 0 {
		t.Errorf("come back after %s, %+v", retry, x.Standing)
	}
	x = request(t.Context(), "192.0.2.1", "T: gold")
	if err := h.Serve(x); err != nil || x.Standing.Remaining != 8 {
		t.Errorf("in a tier: %v, %+v", err, x.Standing)
	}
	for what, want := range map[string]int{"wide allow": 8, "r rate_limit 1 allow": 4, "r rate_limit 1 deny": 4, "wide deny": 0} {
		if got := b.counted(what); got != want {
			t.Errorf("%s was counted %d times, want %d", what, got, want)
		}
	}
}

func TestRateShadow(t *testing.T) {
	b := newBed(t)
	h := b.chain("{rate_limit: {name: s, rate: 2/h, mode: shadow}}", answer)
	of := func() *pipeline.Exchange {
		return request(t.Context(), "192.0.2.1")
	}
	if got := b.passes(h, 5, "", of); got != 5 {
		t.Errorf("%d passed", got)
	}
	x := of()
	if err := h.Serve(x); err != nil || x.Standing.Policy != nil {
		t.Errorf("%v, clients are told %+v", err, x.Standing)
	}
	if allowed, shadowed := b.counted("s allow"), b.counted("s shadow_deny"); allowed != 2 || shadowed != 4 {
		t.Errorf("%d allowed and %d would be refused", allowed, shadowed)
	}
}

// TestRateReload keeps what is used up by the place of a limit, whatever else changes.
func TestRateReload(t *testing.T) {
	b := newBed(t)
	of := func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1") }
	b.passes(b.chain("{rate_limit: {rate: 10/h}}", answer), 5, "", of)
	for chain, want := range map[string]int{
		"{rate_limit: {rate: 10/h, mode: shadow}}":                  20,
		"{rate_limit: {rate: 10/h, key: global}}":                   10,
		"{concurrency_limit: {max: 1}}, {rate_limit: {rate: 10/h}}": 10,
	} {
		if got := b.passes(b.chain(chain, answer), 20, pipeline.RateLimited, of); got != want {
			t.Errorf("%s: %d passed, want %d", chain, got, want)
		}
	}
	// The shadow has taken the other five, since it is the same limit.
	if got := b.passes(b.chain("{rate_limit: {rate: 10/h}}", answer), 20, pipeline.RateLimited, of); got != 0 {
		t.Errorf("%d passed after a reload", got)
	}
}

// TestRateReloadByName keeps what is used up by the name of a limit, wherever it stands.
func TestRateReloadByName(t *testing.T) {
	b := newBed(t)
	of := func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1") }
	const named, other = "{rate_limit: {name: n, rate: 10/h}}", "{rate_limit: {name: other, rate: 1000/h}}"
	b.passes(b.chain(named, answer), 5, "", of)
	if got := b.passes(b.chain(other+", {concurrency_limit: {max: 9}}, "+named, answer), 20, pipeline.RateLimited, of); got != 5 {
		t.Errorf("behind another %d of the five that are left passed", got)
	}
	two := named + ", {rate_limit: {name: n, rate: 3/h}}"
	if got := b.passes(b.chain(two, answer), 20, pipeline.RateLimited, of); got != 0 {
		t.Errorf("%d passed what is used up", got)
	}
	if got := b.passes(b.chain("{rate_limit: {name: m, rate: 4/h}}, {rate_limit: {name: m, rate: 2/h}}", answer), 20, pipeline.RateLimited, of); got != 2 {
		t.Errorf("%d passed two limits of one name, the second of which has two", got)
	}
}

// TestRateWithoutItsStore does as on_store_failure says; clients are told nothing that
// nobody knows.
func TestRateWithoutItsStore(t *testing.T) {
	for _, c := range []struct {
		failure         string
		passed          int
		word            pipeline.Word
		allowed, failed string
	}{
		{"local", 2, pipeline.RateLimited, "2", "5"},
		{"allow", 5, "", "5", "5"},
		{"deny", 0, pipeline.LimitUnavailable, "0", "5"},
	} {
		t.Run(c.failure, func(t *testing.T) {
			b := newBed(t)
			h := b.chain("{rate_limit: {name: s, rate: 2/h, store: main, on_store_failure: "+c.failure+"}}", answer)
			passed := 0
			for range 5 {
				x := request(t.Context(), "192.0.2.1")
				err := h.Serve(x)
				if err == nil {
					passed++
				} else if e := pipeline.AsError(err); e.Word != c.word {
					t.Errorf("refused by %v", e)
				}
				if told := x.Standing.Policy != nil; told != (c.failure == "local") {
					t.Errorf("clients are told %+v", x.Standing)
				}
			}
			if store := b.shown[0]().Store; store == nil || *store != (pipeline.LimitStoreStatus{Name: "main", Sync: "exact", Instances: 1, OnFailure: c.failure}) {
				t.Errorf("the store is shown as %+v", store)
			}
			if passed != c.passed {
				t.Errorf("%d passed, want %d", passed, c.passed)
			}
			if allowed, failed := fmt.Sprint(b.counted("s allow")), fmt.Sprint(b.counted("s store_error")); allowed != c.allowed || failed != c.failed {
				t.Errorf("%s allowed and %s failures of the store were counted", allowed, failed)
			}
		})
	}
}

func TestUpstreamLimit(t *testing.T) {
	b := newBed(t)
	site := &pipeline.Site{Leases: b.registry.NewSet(), Decisions: b.decisions, Show: b.show}
	defer site.Leases.Release()
	m := &model.Upstream{Name: "up", RateLimit: &model.RateLimit{Count: 1, Per: time.Hour, Burst: 3}}
	admit := limit.Upstream(site, m)
	h := pipeline.HandlerFunc(admit)
	if got := b.passes(h, 5, pipeline.RateLimited, func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1") }); got != 3 {
		t.Errorf("%d passed", got)
	}
	if got, want := b.shown[0](), (pipeline.LimitStatus{Limit: "upstream up", Kind: "upstream", Algorithm: "token_bucket", Rate: "1/h", Burst: 3, Mode: "enforce", Keys: 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("shown as %+v", got)
	}
	if got := b.counted("upstream up deny"); got != 2 {
		t.Errorf("%d denials were counted", got)
	}
}

// TestAlgorithms: the configuration knows those of the table, and no others.
func TestAlgorithms(t *testing.T) {
	var names []string
	for _, strategy := range ratelimit.Strategies() {
		names = append(names, strategy.Name)
		wantProblem(t, "{rate_limit: {rate: 1/s, algorithm: "+strategy.Name+"}}", "")
	}
	field, _ := reflect.TypeFor[limit.RateOptions]().FieldByName("Algorithm")
	if known := field.Tag.Get("enum"); known != strings.Join(names, "|") {
		t.Errorf("algorithm may be %s, the table has %q", known, names)
	}
}

func TestLimitProblems(t *testing.T) {
	for chain, want := range map[string]string{
		"{rate_limit: {rate: 1/s}}":                                       "",
		"{rate_limit: {}}":                                                "rate_limit needs the key rate",
		"{rate_limit: {rate: 1/s, cost: 0}}":                              "cost must be at least 1, not 0",
		"{rate_limit: {rate: 1/s, cost: 0, tier_by: consumer}}":           "tier_by names a tier, and there are no tiers",
		"{rate_limit: {rate: 1/s, cost: 2}}":                              "each request costs 2, and never more than 1 can be there",
		"{rate_limit: {rate: 1/s, burst: 0}}":                             "burst must be at least 1, not 0",
		"{rate_limit: {rate: 1/s, max_keys: 0}}":                          "max_keys must be at least 1, not 0",
		"{rate_limit: {rate: 1/s, algorithm: sliding_window, burst: 2}}":  "a sliding_window has no burst: all of its rate may come at once",
		"{rate_limit: {rate: 1/s, algorithm: leaky}}":                     "algorithm must be token_bucket or sliding_window, not \"leaky\"",
		"{rate_limit: {rate: 1/s, tier_by: consumer}}":                    "tier_by names a tier, and there are no tiers",
		"{rate_limit: {rate: 1/s, tiers: {a: {rate: 1/s, burst: -1}}}}":   "burst must be at least 1, not -1",
		"{rate_limit: {rate: 1/s, key: []}}":                              "key is an empty list",
		"{rate_limit: {rate: 1/s, key: [client_ip, moon]}}":               "key[1] must be global, client_ip, route, upstream, consumer, header:NAME, cookie:NAME, query:NAME or jwt:CLAIM, not the text \"moon\"",
		"{rate_limit: {rate: 1/s, key: globl}}":                           "key must be global, client_ip, route, upstream, consumer, header:NAME, cookie:NAME, query:NAME or jwt:CLAIM, not the text \"globl\"",
		"{rate_limit: {rate: 1/s, key: \"global:x\"}}":                    "key must be global alone, which has no name",
		"{rate_limit: {rate: 1/s, key: \"header:\"}}":                     "key needs the name of a header field after header:, not \"\"",
		"{rate_limit: {rate: 1/s, store: main}}":                          "",
		"{rate_limit: {rate: 1/s, store: memory}}":                        "",
		"{rate_limit: {rate: 1/s, store: man}}":                           "there is no store \"man\"",
		"{rate_limit: {rate: 1/s, store: 7}}":                             "store must be memory or the name of a store, not the number 7",
		"{rate_limit: {rate: 1/s, store: main, sync: lease}}":             "",
		"{rate_limit: {rate: 1/s, sync: lease}}":                          "sync: lease needs a store",
		"{rate_limit: {rate: 1/s, store: main, sync: often}}":             "sync must be exact or lease, not \"often\"",
		"{rate_limit: {rate: 1/s, on_store_failure: deny}}":               "on_store_failure needs a store",
		"{rate_limit: {rate: 1/s, store: main, on_store_failure: panic}}": "on_store_failure must be local, allow or deny, not \"panic\"",
	} {
		wantProblem(t, chain, want)
	}
}
