package telemetry

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is what is read when somebody asks for the metrics, where all else is
// counted as it happens: so what is gone has no series any more.
type State struct {
	Endpoints    []EndpointState
	Breakers     []BreakerState
	Certificates []CertificateState
	Limits       []LimitState
	Stances      []StanceState
	Keys         []KeysState
}

// EndpointState tells whether an endpoint is fit for attempts.
type EndpointState struct {
	Upstream, Endpoint string
	Healthy            bool
}

// BreakerState is the state of a circuit breaker: 0 closed, 1 open, 2 half-open.
// Endpoint is empty for that of a whole upstream.
type BreakerState struct {
	Upstream, Endpoint string
	Code               float64
}

// CertificateState is when a certificate ends that a listener uses.
type CertificateState struct {
	Listener, Certificate string
	NotAfter              time.Time
}

// ReadFrom names where the state is read, for each answer anew. read is safe for
// concurrent use, and quick.
func (m *Metrics) ReadFrom(read func() State) {
	m.registry.MustRegister(&stateCollector{
		metrics:      m,
		read:         read,
		limits:       newLimitDescs(),
		keys:         newKeysDescs(),
		endpoints:    prometheus.NewDesc("gateway_endpoint_healthy", "1 for an endpoint that neither checks, nor an ejection, nor a drain keep attempts from; else 0.", []string{"upstream", "endpoint"}, nil),
		breakers:     prometheus.NewDesc("gateway_breaker_state", "0 for a circuit breaker that is closed, 1 open, 2 half-open; endpoint is empty for that of a whole upstream.", []string{"upstream", "endpoint"}, nil),
		certificates: prometheus.NewDesc("gateway_certificate_expiry_timestamp_seconds", "When a certificate ends that a listener uses, in Unix time.", []string{"listener", "certificate"}, nil),
	})
}

// stateCollector makes series of the state.
type stateCollector struct {
	metrics                           *Metrics
	read                              func() State
	endpoints, breakers, certificates *prometheus.Desc
	limits                            limitDescs
	keys                              keysDescs
}

// Describe lists the families.
func (c *stateCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.endpoints
	out <- c.breakers
	out <- c.certificates
	c.limits.describe(out)
	c.keys.describe(out)
}

// Collect reads the state.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	state := c.read()
	// An endpoint may be listed twice: what is wrong with it then shows. In what is
	// past the bound the healthy ones are counted.
	healthy := c.gauges(c.endpoints, func(a, b float64) float64 { return min(a, b) }, func(a, b float64) float64 { return a + b })
	for _, e := range state.Endpoints {
		value := 0.0
		if e.Healthy {
			value = 1
		}
		healthy.add(value, e.Upstream, e.Endpoint)
	}
	breakers := c.gauges(c.breakers, worseState, worseState)
	for _, b := range state.Breakers {
		breakers.add(b.Code, b.Upstream, b.Endpoint)
	}
	first := func(a, b float64) float64 { return min(a, b) }
	ends := c.gauges(c.certificates, first, first)
	for _, certificate := range state.Certificates {
		ends.add(float64(certificate.NotAfter.Unix()), certificate.Listener, certificate.Certificate)
	}
	sets := append(c.limitSets(state.Limits, state.Stances), healthy, breakers, ends)
	for _, g := range append(sets, c.keysSets(state.Keys)...) {
		g.collect(out)
	}
}

// worseState is the one of two states of circuit breakers that lets less pass.
func worseState(a, b float64) float64 { return firstOf([]float64{1, 2}, a, b) }

// firstOf is the state that comes first in an order and is one of two; else 0.
func firstOf(order []float64, a, b float64) float64 {
	for _, state := range order {
		if a == state || b == state {
			return state
		}
	}
	return 0
}

// gaugeSet is the series of a family for one answer, at most as many as the
// family may have. Those that come first have their own.
type gaugeSet struct {
	desc       *prometheus.Desc
	kind       prometheus.ValueType
	limit      int // 0: without bound
	same, rest func(a, b float64) float64
	index      map[string]int
	series     []gaugeSeries
	other      *float64
}

type gaugeSeries struct {
	labels []string
	value  float64
}

// gauges is an empty set. same joins values of equal labels, rest those of the
// series past the bound.
func (c *stateCollector) gauges(desc *prometheus.Desc, same, rest func(a, b float64) float64) *gaugeSet {
	return &gaugeSet{desc: desc, kind: prometheus.GaugeValue, limit: int(c.metrics.limit.Load()), same: same, rest: rest, index: map[string]int{}}
}

func (g *gaugeSet) add(value float64, labels ...string) {
	key := keyOf(labels)
	at, known := g.index[key]
	switch {
	case known:
		g.series[at].value = g.same(g.series[at].value, value)
	case g.limit == 0 || len(g.series) < g.limit:
		g.index[key] = len(g.series)
		g.series = append(g.series, gaugeSeries{labels, value})
	case g.other == nil:
		g.other = &value
	default:
		*g.other = g.rest(*g.other, value)
	}
}

func (g *gaugeSet) collect(out chan<- prometheus.Metric) {
	for _, s := range g.series {
		out <- prometheus.MustNewConstMetric(g.desc, g.kind, s.value, s.labels...)
	}
	if g.other != nil { // so there are others
		out <- prometheus.MustNewConstMetric(g.desc, g.kind, *g.other, slices.Repeat([]string{overflow}, len(g.series[0].labels))...)
	}
}
