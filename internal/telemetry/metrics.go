package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// durationBuckets are the bounds of all histograms of durations, in seconds.
var durationBuckets = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// Metrics are the gateway's figures (SPEC 7) in a registry of their own. They
// outlive every snapshot; a snapshot resolves the series of its routes,
// upstreams and listeners once, when it is built. All methods are safe for
// concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	limit    atomic.Int64

	requests         *family[prometheus.Counter]
	requestSeconds   *family[prometheus.Observer]
	errors           *family[prometheus.Counter]
	downstream       *family[prometheus.Gauge]
	pathViolations   *family[prometheus.Counter]
	listeners        cache[string, *ListenerMetrics]
	upstreamUses     *family[prometheus.Counter]
	upstreamActive   *family[prometheus.Gauge]
	upstreamSeconds  *family[prometheus.Observer]
	retries          *family[prometheus.Counter]
	retriesDenied    *family[prometheus.Counter]
	decisions        *family[prometheus.Counter]
	transitions      *family[prometheus.Counter]
	ejections        *family[prometheus.Counter]
	active           prometheus.Gauge
	revision         prometheus.Gauge
	reloadsDone      prometheus.Counter
	reloadsRefused   prometheus.Counter
	lastSuccess      prometheus.Gauge
	accessLogDrops   prometheus.Counter
	accessLogFailure prometheus.Counter
}

// NewMetrics returns metrics at zero, with at most maxSeries series a family;
// 0 is without bound.
func NewMetrics(maxSeries int) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.SetMaxSeries(maxSeries)
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)

	m.requests = m.counters("gateway_requests_total", "Requests, by the status that went to the client.",
		"route", "path", "method", "status", "upstream", "version")
	m.requestSeconds = m.histograms("gateway_request_duration_seconds", "From the first byte of a request to the last byte of its response.",
		"route", "path", "method", "upstream")
	m.errors = m.counters("gateway_errors_total", "Exchanges that ended with an error of the gateway's, by its word.", "route", "error")
	m.downstream = m.gauges("gateway_downstream_connections", "Open connections of clients.", "listener")
	m.pathViolations = m.counters("gateway_path_violations_total", "Paths that break a rule where the listener only reports them.", "listener")
	m.upstreamUses = m.counters("gateway_upstream_connections_total", "Connections taken for attempts, new and reused ones.", "upstream", "reused")
	m.upstreamActive = m.gauges("gateway_upstream_active_connections", "Open connections to endpoints, with those in the pool that wait for work.", "upstream")
	m.upstreamSeconds = m.histograms("gateway_upstream_duration_seconds", "From the start of an attempt to the head of its response.", "upstream")
	m.retries = m.counters("gateway_retries_total", "Attempts that repeated another.", "upstream")
	m.retriesDenied = m.counters("gateway_retry_budget_exhausted_total", "Repetitions that the budget of the upstream forbade.", "upstream")
	m.transitions = m.counters("gateway_breaker_transitions_total", "Changes of a circuit breaker's state, by the state that it changed to.", "upstream", "endpoint", "to")
	m.ejections = m.counters("gateway_ejections_total", "Ejections of an endpoint because of what its exchanges came to.", "upstream", "endpoint")
	m.decisions = m.counters("gateway_rate_limit_decisions_total", "Decisions of limits.", "limit", "decision")

	m.active = m.gauge("gateway_active_requests", "Requests that are being served.")
	m.revision = m.gauge("gateway_config_revision", "The revision that serves.")
	reloads := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gateway_config_reloads_total", Help: "Configurations that were to be served, by what became of them."}, []string{"result"})
	m.registry.MustRegister(reloads)
	m.reloadsDone, m.reloadsRefused = reloads.WithLabelValues("success"), reloads.WithLabelValues("failure")
	m.lastSuccess = m.gauge("gateway_config_last_success_timestamp_seconds", "When the configuration that serves began to, in Unix time.")
	m.accessLogDrops = m.counter("gateway_access_log_dropped_total", "Access log lines that were lost: the queue was full or the output failed.")
	m.accessLogFailure = m.counter("gateway_access_log_errors_total", "Writes to the access log that failed.")
	return m
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) counters(name, help string, labels ...string) *family[prometheus.Counter] {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(vec)
	return newFamily(&m.limit, vec.WithLabelValues)
}

func (m *Metrics) gauges(name, help string, labels ...string) *family[prometheus.Gauge] {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(vec)
	return newFamily(&m.limit, vec.WithLabelValues)
}

func (m *Metrics) histograms(name, help string, labels ...string) *family[prometheus.Observer] {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets[:]}, labels)
	m.registry.MustRegister(vec)
	return newFamily(&m.limit, vec.WithLabelValues)
}

// SetMaxSeries changes the bound of every family: for series that come from now
// on. What was resolved before stays; a new snapshot resolves anew.
func (m *Metrics) SetMaxSeries(n int) { m.limit.Store(int64(n)) }

// Gatherer is what serves the metrics to anything that knows Prometheus.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// RequestStarted counts an exchange in, until RequestEnded.
func (m *Metrics) RequestStarted() { m.active.Inc() }

// RequestEnded counts an exchange out.
func (m *Metrics) RequestEnded() { m.active.Dec() }

// ConfigServed tells that a revision serves, since at.
func (m *Metrics) ConfigServed(revision uint64, at time.Time) {
	m.revision.Set(float64(revision))
	m.lastSuccess.Set(float64(at.UnixNano()) / 1e9)
	m.reloadsDone.Inc()
}

// ConfigRefused tells that a configuration had problems and does not serve.
func (m *Metrics) ConfigRefused() { m.reloadsRefused.Inc() }

// accessLogDropped counts lost lines; nobody counts for nil.
func (m *Metrics) accessLogDropped(lines int) {
	if m != nil {
		m.accessLogDrops.Add(float64(lines))
	}
}

// accessLogFailed counts a failed write; nobody counts for nil.
func (m *Metrics) accessLogFailed() {
	if m != nil {
		m.accessLogFailure.Inc()
	}
}
