package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// methodOther stands for every method that is not a standard one.
const methodOther = "_OTHER"

// methodLabel returns the label of a method: itself if RFC 9110 9.3 or RFC 5789
// names it.
func methodLabel(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
		return method
	}
	return methodOther
}

// RouteMetrics counts the exchanges of one route. A snapshot makes
// one for each when it is built; methods are safe for concurrent use, and take
// no lock and allocate nothing for what they saw before.
type RouteMetrics struct {
	metrics     *Metrics
	route, path string
	responses   cache[response, responseMetrics]
	errors      cache[string, prometheus.Counter]
}

type response struct {
	method   string // a label
	status   int
	upstream string
	version  string
}

type responseMetrics struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

// Route returns what counts exchanges of a route: its id and its pattern, each
// empty where there is none.
func (m *Metrics) Route(route, path string) *RouteMetrics {
	return &RouteMetrics{metrics: m, route: route, path: path}
}

// Observe counts an exchange: its method as it came, the status that the client
// got, the upstream and the version of the destination, each "" where there is
// none, and how long it took.
func (r *RouteMetrics) Observe(method string, status int, upstream, version string, duration time.Duration) {
	key := response{method: methodLabel(method), status: status, upstream: upstream, version: version}
	series, ok := r.responses.load(key)
	if !ok {
		series = responseMetrics{
			requests: r.metrics.requests.get(r.route, r.path, key.method, strconv.Itoa(status), upstream, version),
			seconds:  r.metrics.requestSeconds.get(r.route, r.path, key.method, upstream),
		}
		r.responses.store(key, series)
	}
	series.requests.Inc()
	series.seconds.Observe(duration.Seconds())
}

// Error counts an exchange that ended with an error, by its word.
func (r *RouteMetrics) Error(word string) {
	counter, ok := r.errors.load(word)
	if !ok {
		counter = r.metrics.errors.get(r.route, word)
		r.errors.store(word, counter)
	}
	counter.Inc()
}

// UpstreamMetrics counts what happens between the gateway and one upstream.
// Its methods are safe for concurrent use, take no lock and allocate nothing.
type UpstreamMetrics struct {
	reused, dialed       prometheus.Counter
	active               prometheus.Gauge
	seconds              prometheus.Observer
	repeated, unrepeated prometheus.Counter
}

// Upstream returns what counts for the upstream with a name.
func (m *Metrics) Upstream(name string) *UpstreamMetrics {
	return &UpstreamMetrics{
		reused:  m.upstreamUses.get(name, "true"),
		dialed:  m.upstreamUses.get(name, "false"),
		active:  m.upstreamActive.get(name),
		seconds: m.upstreamSeconds.get(name),

		repeated:   m.retries.get(name),
		unrepeated: m.retriesDenied.get(name),
	}
}

// ConnectionOpened counts a connection that was made; it is active until
// ConnectionClosed.
func (u *UpstreamMetrics) ConnectionOpened() {
	u.dialed.Inc()
	u.active.Inc()
}

// ConnectionReused counts an attempt on a connection that has served before.
func (u *UpstreamMetrics) ConnectionReused() { u.reused.Inc() }

// ConnectionClosed counts a connection that is no more.
func (u *UpstreamMetrics) ConnectionClosed() { u.active.Dec() }

// Repeated counts an attempt that repeats another.
func (u *UpstreamMetrics) Repeated() { u.repeated.Inc() }

// BudgetExhausted counts one that the budget for repetitions forbade.
func (u *UpstreamMetrics) BudgetExhausted() { u.unrepeated.Inc() }

// Observe counts how long an attempt waited for the head of its response.
func (u *UpstreamMetrics) Observe(duration time.Duration) { u.seconds.Observe(duration.Seconds()) }

// BreakerChanged counts a change of a circuit breaker's state; endpoint is empty
// for that of a whole upstream.
func (m *Metrics) BreakerChanged(upstream, endpoint, to string) {
	m.transitions.get(upstream, endpoint, to).Inc()
}

// EndpointEjected counts an ejection.
func (m *Metrics) EndpointEjected(upstream, endpoint string) {
	m.ejections.get(upstream, endpoint).Inc()
}

// ExpectBreaker has the changes of a circuit breaker counted from zero on: what
// looks for increases would miss the first of a series that begins with it.
func (m *Metrics) ExpectBreaker(upstream, endpoint string, states ...string) {
	for _, to := range states {
		m.transitions.get(upstream, endpoint, to)
	}
}

// ExpectEjection has the ejections of an endpoint counted from zero on.
func (m *Metrics) ExpectEjection(upstream, endpoint string) { m.ejections.get(upstream, endpoint) }

// Decisions returns what counts a limit's decisions of one sort: allow, deny,
// shadow_deny or store_error.
func (m *Metrics) Decisions(limit, decision string) (count func()) {
	return m.decisions.get(limit, decision).Inc
}

// ListenerMetrics counts what happens at one listener. Its methods are safe
// for concurrent use, take no lock and allocate nothing.
type ListenerMetrics struct {
	connections prometheus.Gauge
	violations  prometheus.Counter
}

// Listener returns what counts for the listener with a name. It is called for
// each connection: names that it saw before cost no lock.
func (m *Metrics) Listener(name string) *ListenerMetrics {
	if known, ok := m.listeners.load(name); ok {
		return known
	}
	made := &ListenerMetrics{connections: m.downstream.get(name), violations: m.pathViolations.get(name)}
	m.listeners.store(name, made)
	return made
}

// ConnectionOpened counts a client's connection in, until ConnectionClosed.
func (l *ListenerMetrics) ConnectionOpened() { l.connections.Inc() }

// ConnectionClosed counts a client's connection out.
func (l *ListenerMetrics) ConnectionClosed() { l.connections.Dec() }

// PathViolation counts a path that breaks a rule and was let through.
func (l *ListenerMetrics) PathViolation() { l.violations.Inc() }
