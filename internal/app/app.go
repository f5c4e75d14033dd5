// Package app puts a gateway together: the table of kinds, the provider, the
// snapshots and the admin API, their start and their stop. It is the only place
// that knows all parts; it has no mechanism of its own but the order of things.
package app

import (
	"cmp"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/admin"
	"sluice/internal/config"
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/provider"
	"sluice/internal/server"
	"sluice/internal/snapshot"
	"sluice/internal/telemetry"
)

// Options are what a gateway is started with.
type Options struct {
	Source Source       // of the documents
	Log    *slog.Logger // of the process
	// Stdout and Stderr are for the access log; they take concurrent writes.
	Stdout, Stderr io.Writer
	// Sockets are listening sockets from a process before; nil: none.
	Sockets *Sockets
	// Environment is what documents take values from; the zero value: the
	// process's variables, and files.
	Environment config.Environment
	// RetryEvery is how often a change is tried again that something outside of
	// the documents keeps from serving, as an address that somebody else has.
	// 0: 2 s.
	RetryEvery time.Duration
	// Loops tells how many event loops there are to be, where the engine is one
	// of those; 0: one for each processor. May be nil.
	Loops func() int
	// Engine is the engine instead of the one that the configuration names; for
	// tests, which can have standard, too. Empty: the configuration's.
	Engine string
	// Kinds are kinds of middleware besides those of the table; for tests.
	Kinds []pipeline.Kind
}

// Source is a provider that can be told what else its documents depend on, and
// to read them again at once.
type Source interface {
	provider.Provider
	// Watch names files whose change is a change of the documents.
	Watch(files []string)
	// Reload leads to an update even where nothing seems changed.
	Reload()
}

// Gateway is one running gateway.
type Gateway struct {
	log      *slog.Logger
	registry lease.Registry
	current  snapshot.Current
	history  snapshot.History
	metrics  *telemetry.Metrics
	builder  snapshot.Builder
	api      *admin.API
	source   Source
	sockets  *Sockets
	values   config.Environment
	loops    func() int
	forced   string  // the engine of tests
	engine   *engine // nil before the first change that could be built; of one change at a time

	retryEvery time.Duration
	problems   atomic.Pointer[[]model.Problem] // of the documents as last read; the slice is not changed
	serving    chan struct{}                   // closed when the first snapshot serves

	mu      sync.Mutex // guards the swap of the snapshot and what belongs to it
	admin   *admin.Listener
	phase   phase
	begun   [phases]chan struct{} // by phase: closed when it has begun; not changed
	leaving []*server.Listener    // that no snapshot has any more, and that drain
}

// RefusedError is a first configuration with problems: there is nothing to serve.
type RefusedError struct{ Problems []model.Problem }

// Error is the problems, one on each line.
func (e *RefusedError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// New returns a gateway that is ready to Run. It starts nothing.
func New(o Options) *Gateway {
	if o.Loops == nil {
		o.Loops = func() int { return 0 }
	}
	g := &Gateway{log: o.Log, metrics: telemetry.NewMetrics(0), source: o.Source, sockets: o.Sockets, values: o.Environment, loops: o.Loops, forced: o.Engine, retryEvery: cmp.Or(o.RetryEvery, retryEvery), serving: make(chan struct{})}
	if g.sockets == nil {
		g.sockets = &Sockets{}
	}
	for i := range g.begun {
		g.begun[i] = make(chan struct{})
	}
	g.builder = snapshot.Builder{
		Current:   &g.current,
		Registry:  &g.registry,
		Kinds:     append(Kinds(), o.Kinds...),
		Metrics:   g.metrics,
		Server:    server.Options{Service: &g.current, Log: o.Log, Listen: g.sockets.Listen, Connections: g.connections},
		AccessLog: telemetry.Options{Logger: o.Log, Metrics: g.metrics, Stdout: o.Stdout, Stderr: o.Stderr},
		Log:       o.Log,
		Pseudonym: cmp.Or(g.sockets.Pseudonym, "sluice-"+strings.ToLower(rand.Text()[:12])),
	}
	g.metrics.ReadFrom(g.current.State)
	g.api = admin.New(g, o.Log)
	return g
}

// connections counts a client's connection in or out.
func (g *Gateway) connections(listener string, delta int) {
	if m := g.metrics.Listener(listener); delta > 0 {
		m.ConnectionOpened()
	} else {
		m.ConnectionClosed()
	}
}

// Serving is closed once the first snapshot serves.
func (g *Gateway) Serving() <-chan struct{} { return g.serving }

// Reload reads the configuration again, whether it seems changed or not.
func (g *Gateway) Reload() { g.source.Reload() }

// ReopenLog makes the access log's file anew where it was moved away.
func (g *Gateway) ReopenLog() {
	if s := g.current.Load(); s != nil {
		if err := s.ReopenLog(); err != nil {
			g.log.Error("the access log stays with its file", "error", err)
		}
	}
}

// Addr is the bound address of a listener of the serving snapshot, nil without.
func (g *Gateway) Addr(listener string) net.Addr {
	if s := g.current.Load(); s != nil {
		for i, m := range s.Gateway.Listeners {
			if m.Name == listener {
				return s.Listeners[i].Addr()
			}
		}
	}
	return nil
}

// AdminAddr is the bound address of the admin API, nil before it serves.
func (g *Gateway) AdminAddr() net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admin == nil {
		return nil
	}
	return g.admin.Addr()
}

// Current is the serving snapshot, nil before the first.
func (g *Gateway) Current() *snapshot.Snapshot { return g.current.Load() }

// Ready tells whether a snapshot serves and draining has not begun. A gateway
// whose sockets another process serves is as ready as that one.
func (g *Gateway) Ready() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current.Load() != nil && g.phase < draining
}

// Problems are those of the documents as last read.
func (g *Gateway) Problems() []model.Problem {
	if problems := g.problems.Load(); problems != nil {
		return *problems
	}
	return nil
}

// History holds the revisions.
func (g *Gateway) History() *snapshot.History { return &g.history }

// Gatherer holds the metrics.
func (g *Gateway) Gatherer() prometheus.Gatherer { return g.metrics.Gatherer() }
