package upstream

import (
	"fmt"
	"time"
)

// judge counts what an attempt came to, and ejects the endpoint where that is too
// much.
func (g *Group) judge(e *Endpoint, failed bool, now time.Time) {
	e.state.outcomes.Record(now, failed)
	if !failed {
		return
	}
	g.shared.mu.Lock()
	reason := g.outlying(e, now)
	if reason == "" || e.state.ejection.Out(now) || !g.spare(now) {
		g.shared.mu.Unlock()
		return
	}
	until := e.state.ejection.Eject(now, g.Outlier.BaseEjection)
	e.state.ejected = true
	g.shared.mu.Unlock()
	g.shared.changed()
	g.observer.tell(Event{Kind: Ejected, Upstream: g.Name(), Endpoint: e.URL, Reason: reason, Until: until})
}

// outlying is why an endpoint is to be ejected, or empty.
func (g *Group) outlying(e *Endpoint, now time.Time) string {
	consecutive, requests, failures := e.state.outcomes.Counts(now)
	o := g.Outlier
	if o.Consecutive > 0 && consecutive >= o.Consecutive {
		return fmt.Sprintf("%d failures in a row", consecutive)
	}
	if o.ErrorRate == 0 || requests < max(1, o.MinRequests) || float64(failures) < o.ErrorRate*float64(requests) {
		return ""
	}
	// Where the others fail as well it is not the endpoint that is at fault.
	others, theirs := 0, 0
	for _, one := range g.members.Load().endpoints {
		if one.state != e.state && !one.state.ejected {
			_, n, bad := one.state.outcomes.Counts(now)
			others, theirs = others+n, theirs+bad
		}
	}
	if others > 0 && float64(theirs) >= o.ErrorRate*float64(others) {
		return ""
	}
	return fmt.Sprintf("%d of %d requests failed", failures, requests)
}

// spare tells whether one more may be ejected. The caller holds the lock.
func (g *Group) spare(now time.Time) bool {
	all, out := 0, 0
	for _, e := range g.members.Load().endpoints {
		if e.Weight == 0 || e.state.drained.Load() {
			continue
		}
		all++
		if e.state.ejection.Out(now) {
			out++
		}
	}
	return float64(out+1) <= g.Outlier.MaxEjected*float64(all)
}
