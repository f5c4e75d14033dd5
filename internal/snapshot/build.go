package snapshot

import (
	"fmt"
	"log/slog"

	"sluice/internal/answer"
	"sluice/internal/lease"
	"sluice/internal/middleware/limit"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/proxy"
	"sluice/internal/server"
	"sluice/internal/telemetry"
	"sluice/internal/transport"
	"sluice/internal/upstream"
)

// Builder makes snapshots from compiled configurations. Its fields are set once.
type Builder struct {
	Current   *Current        // where the snapshots will serve
	Registry  *lease.Registry // what lives on between snapshots
	Kinds     []pipeline.Kind
	Metrics   *telemetry.Metrics
	Server    server.Options
	AccessLog telemetry.Options
	// Transports drives the connections to endpoints. nil: net/http.
	Transports *transport.Engine
	Log        *slog.Logger
	Pseudonym  string // in Via, where the configuration names none
}

// Build composes a snapshot. It acquires what the snapshot needs and starts
// nothing: Commit does. A snapshot that is not used is released.
func (b *Builder) Build(compiled *Compiled, revision Revision) *Snapshot {
	s := &Snapshot{Compiled: compiled, Revision: revision, metrics: b.Metrics, process: b.Log, current: b.Current, guarded: map[string][]guarded{}, Leases: b.Registry.NewSet()}
	gateway := compiled.Gateway
	s.accessLog = telemetry.AcquireAccessLog(s.Leases, gateway.AccessLog, b.AccessLog)
	targets, upstreams := map[*model.Upstream]target{}, map[string]*telemetry.UpstreamMetrics{}
	shown := newShowcase(gateway.Routes)
	for i, m := range gateway.Upstreams {
		upstreams[m.Name] = b.Metrics.Upstream(m.Name)
		b.expect(m)
		group := upstream.Acquire(s.Leases, m, b.connect(upstreams[m.Name]), b.tell)
		targets[m] = b.target(s, m, group, shown.at(limitPlace{ofUpstreams, i, 0}))
		s.Upstreams = append(s.Upstreams, group)
	}
	pseudonym := b.Pseudonym
	if gateway.Admin.Name != "" {
		pseudonym = gateway.Admin.Name
	}
	notes := &ledger{accessLog: s.accessLog, metrics: s.metrics, process: s.process, current: s.current, upstreams: upstreams}
	s.unmatched = &served{metrics: b.Metrics.Route("", ""), ledger: notes}
	for _, route := range compiled.Router.Routes() {
		r := &served{
			route:   route,
			handler: pipeline.Chain(b.destination(route, targets, pseudonym), b.chain(s, route, targets, shown)...),
			metrics: b.Metrics.Route(route.ID, route.Match.Path.String()),
			ledger:  notes,
		}
		s.routes = append(s.routes, r)
	}
	s.limits = shown.list()
	b.secure(s)
	for _, m := range gateway.Listeners {
		s.Listeners = append(s.Listeners, server.Acquire(s.Leases, m, b.Server))
	}
	return s
}

// target is an upstream that routes lead to.
type target struct {
	group *upstream.Group
	admit func(x *pipeline.Exchange) error // nil: all may come
}

func (b *Builder) target(s *Snapshot, m *model.Upstream, group *upstream.Group, show func(string, func() pipeline.LimitStatus)) target {
	if m.RateLimit == nil {
		return target{group: group}
	}
	site := b.site(s)
	site.Show = show
	return target{group, limit.Upstream(site, m)}
}

// connect makes the connections of an upstream, which are counted.
func (b *Builder) connect(m *telemetry.UpstreamMetrics) upstream.Connect {
	faulty := func(upstream string, err error) {
		b.Log.Warn("a TLS file of an upstream cannot be used", "upstream", upstream, "error", err)
	}
	observer := transport.Observer{
		Opened: func(_, _ string) { m.ConnectionOpened() },
		Reused: func(_, _ string) { m.ConnectionReused() },
		Closed: func(_, _ string) { m.ConnectionClosed() },
		Faulty: faulty,
		Unreached: func(upstream, endpoint string, cause error) {
			b.Log.Warn("no connection to an endpoint", "upstream", upstream, "endpoint", endpoint, "cause", cause)
		},
	}
	return upstream.Connect{
		Transport: func(set *lease.Set, m *model.Upstream, endpoint model.Endpoint) pipeline.Transport {
			return transport.Acquire(set, m, endpoint, observer, b.Transports)
		},
		Probe: func(set *lease.Set, m *model.Upstream, endpoint model.Endpoint) pipeline.Transport {
			own := *m
			own.Pool = model.Pool{MaxIdle: 1, IdleTimeout: 2 * m.Health.Interval, MaxPending: 1}
			own.Timeouts = model.AttemptTimeouts{Connect: m.Health.Timeout}
			return transport.Acquire(set, &own, endpoint, transport.Observer{Faulty: faulty}, nil)
		},
	}
}

// destination is what serves the exchanges of a route.
func (b *Builder) destination(route *model.Route, targets map[*model.Upstream]target, pseudonym string) pipeline.Handler {
	switch {
	case route.Respond != nil:
		return answer.Respond(route.Respond)
	case route.Redirect != nil:
		return answer.Redirect(route.Redirect)
	}
	gateway := proxy.Gateway{Pseudonym: pseudonym}
	if route.Split == nil {
		return proxy.New(route, []proxy.Side{b.side(route, model.Side{Upstream: route.Upstream}, targets, gateway)}, gateway)
	}
	sides := make([]proxy.Side, len(route.Split.Sides))
	for i, m := range route.Split.Sides {
		sides[i] = b.side(route, m, targets, gateway)
	}
	return proxy.New(route, sides, gateway)
}

// side is an upstream of a route, with what serves while its circuit breaker is
// open.
func (b *Builder) side(route *model.Route, m model.Side, targets map[*model.Upstream]target, gateway proxy.Gateway) proxy.Side {
	to, ok := targets[m.Upstream]
	if !ok {
		panic(fmt.Sprintf("BUG: route %q leads to an upstream that is not the gateway's", route.ID))
	}
	counts := b.Metrics.Upstream(m.Upstream.Name)
	side := proxy.Side{Group: to.group, Admit: to.admit, Version: m.Version, Weight: m.Weight, Repeated: counts.Repeated, Exhausted: counts.BudgetExhausted}
	if m.Upstream.Breaker == nil || m.Upstream.Breaker.Fallback == nil {
		return side
	}
	if fallback := m.Upstream.Breaker.Fallback; fallback.Respond != nil {
		side.Fallback = answer.Respond(fallback.Respond)
	} else {
		alone := *route
		alone.Upstream, alone.Split = fallback.Upstream, nil
		side.Fallback = proxy.New(&alone, []proxy.Side{b.side(&alone, model.Side{Upstream: fallback.Upstream}, targets, gateway)}, gateway)
	}
	return side
}

func (b *Builder) chain(s *Snapshot, route *model.Route, targets map[*model.Upstream]target, shown *showcase) []pipeline.Middleware {
	steps := make([]pipeline.Middleware, len(route.Chain))
	for i := range route.Chain {
		m := &route.Chain[i]
		site := b.site(s)
		site.Route, site.Step, site.Guard = route, m, s.guards(route, targets)
		site.Show = shown.at(shown.step(route, m))
		steps[i] = b.kind(m.Kind).Build(site, m.Settings)
	}
	return steps
}

// site is where something of a snapshot is built, without a place in a chain.
func (b *Builder) site(s *Snapshot) *pipeline.Site {
	return &pipeline.Site{Leases: s.Leases, Gateway: s.Gateway, Log: b.Log, Decisions: b.Metrics.Decisions, ShowKeys: s.showKeys}
}

func (b *Builder) kind(name string) pipeline.Kind {
	for _, kind := range b.Kinds {
		if kind.Name == name {
			return kind
		}
	}
	panic("BUG: no kind of middleware is called " + name)
}
