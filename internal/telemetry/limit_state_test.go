package telemetry

import (
	"fmt"
	"strings"
	"testing"
)

// limitSamples are the samples of what limits are read for.
func limitSamples(t *testing.T, m *Metrics) (lines []string) {
	t.Helper()
	for _, line := range samples(t, m) {
		if strings.HasPrefix(line, "gateway_rate_limit_") || strings.HasPrefix(line, "gateway_concurrency_limit_") {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestLimitState has one series for the limits of one name, as two in different places
// may have, and bounds how many there are.
func TestLimitState(t *testing.T) {
	m := NewMetrics(0)
	m.ReadFrom(func() State {
		return State{Limits: []LimitState{
			{Limit: "a", Keys: 3, Evicted: 2}, {Limit: "a", Keys: 1, Evicted: 5},
			{Limit: "c", Keys: 1, Concurrency: true, Running: 4, Waiting: 2}, {Limit: "free", Concurrency: true},
		}}
	})
	want := `gateway_concurrency_limit_evicted_total{limit="c"} 0
gateway_concurrency_limit_evicted_total{limit="free"} 0
gateway_concurrency_limit_keys{limit="c"} 1
gateway_concurrency_limit_keys{limit="free"} 0
gateway_concurrency_limit_running{limit="c"} 4
gateway_concurrency_limit_running{limit="free"} 0
gateway_concurrency_limit_waiting{limit="c"} 2
gateway_concurrency_limit_waiting{limit="free"} 0
gateway_rate_limit_evicted_total{limit="a"} 7
gateway_rate_limit_keys{limit="a"} 4`
	hasSamples(t, limitSamples(t, m), want)
}

// TestStanceState has the tighter one of two limits of one name.
func TestStanceState(t *testing.T) {
	m := NewMetrics(0)
	m.ReadFrom(func() (s State) {
		for upstream, codes := range map[string][]float64{"normal": {0, 0}, "guarded": {3, 1}, "shedding": {2, 1}, "recovering": {0, 3}} {
			for _, code := range codes {
				s.Stances = append(s.Stances, StanceState{Limit: "a", Upstream: upstream, Code: code})
			}
		}
		return s
	})
	want := `gateway_rate_limit_state{limit="a",upstream="guarded"} 1
gateway_rate_limit_state{limit="a",upstream="normal"} 0
gateway_rate_limit_state{limit="a",upstream="recovering"} 3
gateway_rate_limit_state{limit="a",upstream="shedding"} 2`
	hasSamples(t, limitSamples(t, m), want)
}

func TestLimitStateIsBounded(t *testing.T) {
	m := NewMetrics(2)
	m.ReadFrom(func() (s State) {
		for i := range 5 {
			s.Limits = append(s.Limits, LimitState{Limit: fmt.Sprint("l", i), Keys: i, Evicted: 1})
		}
		return s
	})
	want := `gateway_rate_limit_evicted_total{limit="_other"} 3
gateway_rate_limit_evicted_total{limit="l0"} 1
gateway_rate_limit_evicted_total{limit="l1"} 1
gateway_rate_limit_keys{limit="_other"} 9
gateway_rate_limit_keys{limit="l0"} 0
gateway_rate_limit_keys{limit="l1"} 1`
	hasSamples(t, limitSamples(t, m), want)
}
