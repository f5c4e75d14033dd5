package pipeline_test

import (
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
			"10/m", "main does not answer: deny",
		},
		{
			pipeline.LimitStatus{Rate: "10/m", AdaptiveRate: &pipeline.AdaptiveRateStatus{Upstreams: []pipeline.StanceStatus{{Upstream: "a", State: "normal"}, {Upstream: "b", State: "shedding"}}}},
			"10/m, adaptive, shedding for b", "memory",
		},
		{pipeline.LimitStatus{Max: 20}, "20 at once", "memory"},
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
