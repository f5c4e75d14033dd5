package telemetry

import "github.com/prometheus/client_golang/prometheus"

// LimitState is how a limit stands. Those of either sort have series of their own.
type LimitState struct {
	Limit   string
	Keys    int
	Evicted int64
	// Concurrency says that it counts exchanges at once; of those Running and Waiting tell.
	Concurrency      bool
	Running, Waiting int
}

// StanceState is how much an adaptive rate lets through to an upstream: 0 normal, 1
// guarded, 2 shedding, 3 recovering.
type StanceState struct {
	Limit, Upstream string
	Code            float64
}

// limitDescs are the families of limits.
type limitDescs struct {
	rate, concurrency        keyDescs
	running, waiting, stance *prometheus.Desc
}

// keyDescs are the families of what a sort of limits remembers.
type keyDescs struct{ keys, evicted *prometheus.Desc }

func newLimitDescs() limitDescs {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"limit"}, more...), nil)
	}
	return limitDescs{
		rate: keyDescs{
			desc("gateway_rate_limit_keys", "Keys that a rate limit knows something of by itself."),
			desc("gateway_rate_limit_evicted_total", "Keys that a rate limit has forgotten because there were too many."),
		},
		concurrency: keyDescs{
			desc("gateway_concurrency_limit_keys", "Keys that a concurrency limit knows something of by itself."),
			desc("gateway_concurrency_limit_evicted_total", "Keys that a concurrency limit has forgotten because there were too many."),
		},
		running: desc("gateway_concurrency_limit_running", "Exchanges that have a place of a concurrency limit."),
		waiting: desc("gateway_concurrency_limit_waiting", "Exchanges that wait for a place of a concurrency limit."),
		stance:  desc("gateway_rate_limit_state", "How much an adaptive rate lets through to an upstream: 0 normal, 1 guarded, 2 shedding, 3 recovering.", "upstream"),
	}
}

func (d *limitDescs) describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.rate.keys, d.rate.evicted, d.concurrency.keys, d.concurrency.evicted, d.running, d.waiting, d.stance} {
		out <- desc
	}
}

// limitSets are the series of the limits. Those of one name are one series together.
func (c *stateCollector) limitSets(limits []LimitState, stances []StanceState) []*gaugeSet {
	sum := func(a, b float64) float64 { return a + b }
	set := func(desc *prometheus.Desc) *gaugeSet { return c.gauges(desc, sum, sum) }
	count := func(desc *prometheus.Desc) *gaugeSet {
		s := set(desc)
		s.kind = prometheus.CounterValue
		return s
	}
	rates, forgotten, running, waiting := set(c.limits.rate.keys), count(c.limits.rate.evicted), set(c.limits.running), set(c.limits.waiting)
	gates, left := set(c.limits.concurrency.keys), count(c.limits.concurrency.evicted)
	for _, l := range limits {
		keys, evicted := rates, forgotten
		if l.Concurrency {
			keys, evicted = gates, left
		}
		keys.add(float64(l.Keys), l.Limit)
		evicted.add(float64(l.Evicted), l.Limit)
		if l.Concurrency {
			running.add(float64(l.Running), l.Limit)
			waiting.add(float64(l.Waiting), l.Limit)
		}
	}
	stance := c.gauges(c.limits.stance, tighterStance, tighterStance)
	for _, s := range stances {
		stance.add(s.Code, s.Limit, s.Upstream)
	}
	return []*gaugeSet{rates, forgotten, gates, left, running, waiting, stance}
}

// tighterStance is the one of two that lets less through.
func tighterStance(a, b float64) float64 { return firstOf([]float64{2, 1, 3}, a, b) }
