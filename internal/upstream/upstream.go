// Package upstream chooses among the endpoints of an upstream and counts what
// happens at each. It sends nothing: an endpoint carries the transport that
// does.
package upstream

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// Group is an upstream as one snapshot has it. It is immutable; the positions
// and counts behind it are shared with every snapshot that has an upstream of
// the same name, and with it the same endpoint, so that they outlive reloads.
// It is safe for concurrent use.
type Group struct {
	name      string
	endpoints []*Endpoint
	pickable  []*Endpoint // those with a weight
	total     int         // of the weights
	turns     *turns
}

// Endpoint is one endpoint of a group, with the transport to it.
type Endpoint struct {
	model.Endpoint
	Transport pipeline.Transport
	state     *state
}

// turns guards the balancing positions of an upstream.
type turns struct{ sync.Mutex }

// state is what is known of an endpoint over all snapshots.
type state struct {
	current  int // the position of the smooth weighted round robin; guarded by turns
	active   atomic.Int64
	requests atomic.Int64
	failures atomic.Int64
}

// Acquire returns the group of an upstream. connect makes the transport to an
// endpoint; it starts nothing. What the group shares is held by set.
func Acquire(set *lease.Set, m *model.Upstream, connect func(model.Endpoint) pipeline.Transport) *Group {
	g := &Group{name: m.Name, turns: lease.Acquire(set, "upstream\n"+m.Name, func() *turns { return &turns{} })}
	repeated := map[string]int{}
	for _, endpoint := range m.Endpoints {
		// An endpoint may be listed twice, as with two versions.
		n := repeated[endpoint.URL]
		repeated[endpoint.URL]++
		key := "endpoint\n" + m.Name + "\n" + endpoint.URL + "\n" + strconv.Itoa(n)
		e := &Endpoint{Endpoint: endpoint, Transport: connect(endpoint), state: lease.Acquire(set, key, func() *state { return &state{} })}
		g.endpoints = append(g.endpoints, e)
		if endpoint.Weight > 0 {
			g.pickable = append(g.pickable, e)
			g.total += endpoint.Weight
		}
	}
	return g
}

// Name is the upstream's name.
func (g *Group) Name() string { return g.name }

// Pick returns the endpoint whose turn it is, by smooth weighted round robin as
// nginx has it: every endpoint gains its weight, the one that is ahead is taken
// and pays the sum. Its error is no_endpoint.
func (g *Group) Pick() (*Endpoint, error) {
	if len(g.pickable) == 0 {
		return nil, pipeline.NewError(pipeline.NoEndpoint, fmt.Errorf("upstream %s has no endpoint with a weight", g.name))
	}
	g.turns.Lock()
	defer g.turns.Unlock()
	var best *Endpoint
	for _, e := range g.pickable {
		// A position from before a reload may be out of all proportion to the
		// weights of now.
		e.state.current = min(max(e.state.current, -g.total), g.total) + e.Weight
		if best == nil || e.state.current > best.state.current {
			best = e
		}
	}
	best.state.current -= g.total
	return best, nil
}

// Begin counts an attempt that begins. Every Begin is followed by one End.
func (e *Endpoint) Begin() {
	e.state.active.Add(1)
	e.state.requests.Add(1)
}

// End counts an attempt that ended, and whether by the endpoint's fault.
func (e *Endpoint) End(failed bool) {
	if failed {
		e.state.failures.Add(1)
	}
	e.state.active.Add(-1)
}

// Status is an upstream as people see it.
type Status struct {
	Name      string           `json:"name"`
	Endpoints []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is an endpoint as people see it. The counts run for as long as
// some snapshot has the endpoint.
type EndpointStatus struct {
	URL      string `json:"url"`
	Weight   int    `json:"weight"`
	Version  string `json:"version,omitempty"`
	Active   int64  `json:"active"`   // attempts under way
	Requests int64  `json:"requests"` // attempts begun
	Failures int64  `json:"failures"` // attempts that failed by the endpoint's fault
}

// Status returns the endpoints in the order in which they are written.
func (g *Group) Status() Status {
	status := Status{Name: g.name, Endpoints: make([]EndpointStatus, 0, len(g.endpoints))}
	for _, e := range g.endpoints {
		status.Endpoints = append(status.Endpoints, EndpointStatus{
			URL: e.URL, Weight: e.Weight, Version: e.Version,
			Active: e.state.active.Load(), Requests: e.state.requests.Load(), Failures: e.state.failures.Load(),
		})
	}
	return status
}
