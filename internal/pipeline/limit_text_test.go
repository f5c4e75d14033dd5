package pipeline_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"sluice/internal/pipeline"
)

func TestLimitText(t *testing.T) {
	for _, test := range []struct {
		status  pipeline.LimitStatus
		numbers string
		store   string
	}{
		{
			pipeline.LimitStatus{Algorithm: "token_bucket", Rate: "100/s", Burst: 20, Mode: "enforce", Store: &pipeline.LimitStoreStatus{Name: "main", Answers: true, Instances: 1}},
			"100/s, burst 20, token_bucket", "main, 1 instance",
		},
		{
			pipeline.LimitStatus{Algorithm: "sliding_window", Rate: "10/m", Mode: "shadow", Store: &pipeline.LimitStoreStatus{Name: "main", Sync: "lease", Answers: true, Instances: 3}},
			"10/m, sliding_window, shadow", "main, 3 instances, by leases",
		},
		{
			pipeline.LimitStatus{Rate: "10/m", Store: &pipeline.LimitStoreStatus{Name: "main", Instances: 3, OnFailure: "deny"}},
			"10/m", "main cannot be used: deny",
		},
		{
			pipeline.LimitStatus{Rate: "10/m", AdaptiveRate: &pipeline.AdaptiveRateStatus{Upstreams: []pipeline.StanceStatus{{Upstream: "a", State: "normal"}, {Upstream: "b", State: "shedding"}}}},
			"10/m, adaptive, shedding for b", "memory",
		},
		{pipeline.LimitStatus{Max: 20}, "20 at once", "memory"},
		{pipeline.LimitStatus{Rate: "1/s", Burst: 9, Cost: 3, Tiers: make([]pipeline.TierStatus, 2)}, "1/s, burst 9, cost 3, 2 tiers", "memory"},
		{pipeline.LimitStatus{Rate: "1/s", Tiers: make([]pipeline.TierStatus, 1)}, "1/s, 1 tier", "memory"},
		{pipeline.LimitStatus{Algorithm: "token_bucket", Rate: "1/s", Key: []string{"client_ip"}, IPv6Prefix: 64, Mode: "shadow"}, "1/s, token_bucket, IPv6 by /64, shadow", "memory"},
		{pipeline.LimitStatus{Max: 20, Adaptive: []pipeline.AdaptiveStatus{{Limit: 7}}}, "20 at once, now 7", "memory"},
		{pipeline.LimitStatus{Adaptive: []pipeline.AdaptiveStatus{{Limit: 7}, {Limit: 3}, {Limit: 5}}}, "now 3 to 7", "memory"},
	} {
		if got := test.status.Numbers(); got != test.numbers {
			t.Errorf("the numbers are %q, want %q", got, test.numbers)
		}
		if got := test.status.Store.String(); got != test.store {
			t.Errorf("the store is %q, want %q", got, test.store)
		}
	}
}

// TestLimitStatusInJSON tells how many run and wait of limits for which there is such a
// thing, also when nobody does.
func TestLimitStatusInJSON(t *testing.T) {
	for want, status := range map[string]pipeline.LimitStatus{
		`[{"limit":"a","kind":"rate_limit","keys":1,"evicted":0}]`:                                        {Limit: "a", Kind: "rate_limit", Keys: 1},
		`[{"limit":"b","kind":"concurrency_limit","keys":0,"evicted":0,"max":2,"running":0,"waiting":0}]`: {Limit: "b", Kind: "concurrency_limit", Max: 2},
		`[{"limit":"c","kind":"concurrency_limit","keys":0,"evicted":0,"max":2,"running":2,"waiting":1}]`: {Limit: "c", Kind: "concurrency_limit", Max: 2, Running: 2, Waiting: 1},
	} {
		text, err := json.Marshal([]pipeline.LimitStatus{status})
		if err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
		var back []pipeline.LimitStatus
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, []pipeline.LimitStatus{status}) {
			t.Errorf("%+v, %v from %s", back, err, text)
		}
	}
}
