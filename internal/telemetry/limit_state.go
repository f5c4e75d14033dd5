package telemetry

import "github.com/prometheus/client_golang/prometheus"

// LimitState is how a limit stands.
type LimitState struct {
	Limit   string
	Keys    int
	Evicted int64
	// Concurrency says that it counts exchanges at once; of those Running and Waiting tell.
	Concurrency      bool
	Running, Waiting int
}

// limitDescs are the families of limits.
type limitDescs struct{ keys, evicted, running, waiting *prometheus.Desc }

func newLimitDescs() limitDescs {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"limit"}, nil)
	}
	return limitDescs{
		keys:    desc("gateway_rate_limit_keys", "Keys that a limit knows something of by itself."),
		evicted: desc("gateway_rate_limit_evicted_total", "Keys that a limit has forgotten because there were too many."),
		running: desc("gateway_concurrency_limit_running", "Exchanges that have a place of a concurrency limit."),
		waiting: desc("gateway_concurrency_limit_waiting", "Exchanges that wait for a place of a concurrency limit."),
	}
}

func (d *limitDescs) describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.keys, d.evicted, d.running, d.waiting} {
		out <- desc
	}
}

// limitSets are the series of the limits. Those of one name are one series together.
func (c *stateCollector) limitSets(limits []LimitState) []*gaugeSet {
	sum := func(a, b float64) float64 { return a + b }
	set := func(desc *prometheus.Desc) *gaugeSet { return c.gauges(desc, sum, sum) }
	keys, evicted, running, waiting := set(c.limits.keys), set(c.limits.evicted), set(c.limits.running), set(c.limits.waiting)
	evicted.kind = prometheus.CounterValue
	for _, l := range limits {
		keys.add(float64(l.Keys), l.Limit)
		evicted.add(float64(l.Evicted), l.Limit)
		if l.Concurrency {
			running.add(float64(l.Running), l.Limit)
			waiting.add(float64(l.Waiting), l.Limit)
		}
	}
	return []*gaugeSet{keys, evicted, running, waiting}
}
