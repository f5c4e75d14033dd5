package snapshot

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/acme"
	"sluice/internal/certificate"
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/telemetry"
	"sluice/internal/upstream"
)

// Revision is a numbered, hashed set of documents that became a snapshot.
type Revision struct {
	Number int       `json:"revision"`
	SHA256 string    `json:"sha256"`
	Time   time.Time `json:"time"`
	Author string    `json:"author"`
	Reason string    `json:"reason"`
	Source string    `json:"source"`
}

// Snapshot is the compiled form of all documents, that serves requests. It is
// immutable; what it holds on lease has a life of its own.
type Snapshot struct {
	*Compiled
	Revision  Revision
	Listeners []*server.Listener // in the order of Gateway.Listeners
	// Secure is what the listeners show over TLS, in the order of Listeners; nil
	// for those without.
	Secure    []*certificate.Serving
	Upstreams []*upstream.Group // in the order of Gateway.Upstreams

	routes    []*served // in the router's order
	unmatched *served   // for what reached no route
	accessLog *telemetry.AccessLog
	metrics   *telemetry.Metrics
	process   *slog.Logger
	ordering  []*acme.Manager // of each listener's certificates, in their order; nil where none are ordered
	managers  []*acme.Manager // those that there are
	current   *Current
	limits    []*shownLimit
	keys      []func() pipeline.KeysStatus // of issuers
	guarded   map[string][]guarded         // by the identity of an adaptive limit

	// Leases is what the snapshot holds; its owner may acquire more before
	// Commit.
	Leases *lease.Set
}

// Commit starts what no earlier snapshot has started: sockets and logs. After
// an error the snapshot is to be released.
func (s *Snapshot) Commit() error { return s.Leases.Commit() }

// Release gives back what the snapshot holds; what no other one holds drains
// and ends. Exchanges that it serves go on.
func (s *Snapshot) Release() { s.Leases.Release() }

// ReopenLog opens the access log's file anew, for when it was moved away. After
// an error the log stays with the file it has.
func (s *Snapshot) ReopenLog() error { return s.accessLog.Reopen() }

// WaitForLog returns nil once the log of a released snapshot has written its
// last line, or the cause of ctx's end before that.
func (s *Snapshot) WaitForLog(ctx context.Context) error { return s.accessLog.Wait(ctx) }

// Current is the one pointer: the snapshot that serves. Engines call it for
// every exchange.
type Current struct {
	pointer atomic.Pointer[Snapshot]
}

var _ pipeline.Service = (*Current)(nil)

// Load returns the serving snapshot, nil before the first.
func (c *Current) Load() *Snapshot { return c.pointer.Load() }

// Swap makes a snapshot the serving one and returns the one before.
func (c *Current) Swap(next *Snapshot) *Snapshot { return c.pointer.Swap(next) }

// Serve admits the exchange, routes it and lets the route's chain serve it.
func (c *Current) Serve(x *pipeline.Exchange) error {
	s := c.pointer.Load()
	s.metrics.RequestStarted()
	x.Observer = s.unmatched
	x.Listener = s.listener(x.Listener)
	err := s.serve(x)
	if err == nil {
		pipeline.EndCall(x, false)
	}
	if s.Gateway.ResponseTimeHeader || x.Standing.Policy != nil {
		err = s.sign(x, err)
	}
	return err
}

// listener returns this snapshot's own settings of a listener. The engine takes
// them up a moment after the swap, and routes may name a listener by its new
// name already. One that the snapshot no longer has drains with what it had.
func (s *Snapshot) listener(m *model.Listener) *model.Listener {
	if slices.Contains(s.Gateway.Listeners, m) {
		return m
	}
	for _, own := range s.Gateway.Listeners {
		if server.Same(own, m) {
			return own
		}
	}
	return m
}

// Done takes the log line and the metrics of an exchange that is over.
func (c *Current) Done(x *pipeline.Exchange) {
	if x.Observer == nil { // refused before it could be served
		s := c.pointer.Load()
		s.metrics.RequestStarted()
		x.Observer = s.unmatched
	}
	defer x.End()
	x.Observer.Observe(x)
}

func (s *Snapshot) serve(x *pipeline.Exchange) error {
	if err := pipeline.Admit(x, s.reportPath(x.Listener)); err != nil {
		return err
	}
	if s.challenged(x) {
		return nil
	}
	found := s.Router.Match(x.Request, x.Listener.Name, x.ClientIP)
	if found.Index < 0 {
		return unmatched(found.Allow)
	}
	route := s.routes[found.Index]
	x.Enter(route.route, found.Params)
	x.Observer = route
	return route.handler.Serve(x)
}

func (s *Snapshot) reportPath(listener *model.Listener) func(error) {
	if !listener.Paths.Report {
		return nil
	}
	return func(violation error) {
		s.metrics.Listener(listener.Name).PathViolation()
		s.process.Warn("a path would be refused", "listener", listener.Name, "violation", violation)
	}
}
