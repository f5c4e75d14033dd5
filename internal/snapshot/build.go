package snapshot

import (
	"fmt"
	"log/slog"

	"sluice/internal/answer"
	"sluice/internal/lease"
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
	s := &Snapshot{Compiled: compiled, Revision: revision, metrics: b.Metrics, process: b.Log, current: b.Current, Leases: b.Registry.NewSet()}
	gateway := compiled.Gateway
	s.accessLog = telemetry.AcquireAccessLog(s.Leases, gateway.AccessLog, b.AccessLog)
	groups := map[*model.Upstream]*upstream.Group{}
	for _, m := range gateway.Upstreams {
		observer := b.observe(b.Metrics.Upstream(m.Name))
		group := upstream.Acquire(s.Leases, m, func(endpoint model.Endpoint) pipeline.Transport {
			return transport.Acquire(s.Leases, m, endpoint, observer, b.Transports)
		})
		groups[m] = group
		s.Upstreams = append(s.Upstreams, group)
	}
	pseudonym := b.Pseudonym
	if gateway.Admin.Name != "" {
		pseudonym = gateway.Admin.Name
	}
	notes := &ledger{accessLog: s.accessLog, metrics: s.metrics, process: s.process, current: s.current}
	s.unmatched = &served{metrics: b.Metrics.Route("", "", ""), ledger: notes}
	for _, route := range compiled.Router.Routes() {
		destination, upstreamName := b.destination(route, groups, pseudonym)
		r := &served{
			route:   route,
			handler: pipeline.Chain(destination, b.chain(route)...),
			metrics: b.Metrics.Route(route.ID, route.Match.Path.String(), upstreamName),
			ledger:  notes,
		}
		if upstreamName != "" {
			r.upstream = b.Metrics.Upstream(upstreamName)
		}
		s.routes = append(s.routes, r)
	}
	b.secure(s)
	for _, m := range gateway.Listeners {
		s.Listeners = append(s.Listeners, server.Acquire(s.Leases, m, b.Server))
	}
	return s
}

// observe lets an upstream's connections be counted, and its faults be told.
func (b *Builder) observe(m *telemetry.UpstreamMetrics) transport.Observer {
	return transport.Observer{
		Opened: func(_, _ string) { m.ConnectionOpened() },
		Reused: func(_, _ string) { m.ConnectionReused() },
		Closed: func(_, _ string) { m.ConnectionClosed() },
		Faulty: func(upstream string, err error) {
			b.Log.Warn("a TLS file of an upstream cannot be used", "upstream", upstream, "error", err)
		},
	}
}

func (b *Builder) destination(route *model.Route, groups map[*model.Upstream]*upstream.Group, pseudonym string) (handler pipeline.Handler, upstreamName string) {
	switch {
	case route.Respond != nil:
		return answer.Respond(route.Respond), ""
	case route.Redirect != nil:
		return answer.Redirect(route.Redirect), ""
	}
	group, ok := groups[route.Upstream]
	if !ok {
		panic(fmt.Sprintf("BUG: route %q leads to an upstream that is not the gateway's", route.ID))
	}
	return proxy.New(route, group, proxy.Gateway{Pseudonym: pseudonym}), route.Upstream.Name
}

func (b *Builder) chain(route *model.Route) []pipeline.Middleware {
	steps := make([]pipeline.Middleware, len(route.Chain))
	for i, m := range route.Chain {
		steps[i] = b.kind(m.Kind).Build(m.Settings)
	}
	return steps
}

func (b *Builder) kind(name string) pipeline.Kind {
	for _, kind := range b.Kinds {
		if kind.Name == name {
			return kind
		}
	}
	panic("BUG: no kind of middleware is called " + name)
}
