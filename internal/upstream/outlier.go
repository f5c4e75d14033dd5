package upstream

import (
	"fmt"
	"time"
)

// judge counts what an attempt came to, and ejects the endpoint where that is too
// much.
func (g *Group) judge(e *Endpoint, failed bool, now time.Time) {
	if !failed {
		e.state.outcomes.Record(now, false)
		return
	}
	g.shared.mu.Lock()
	defer g.shared.unlock()
	g.restore(e, now) // what was before an ejection that is over is not held against it
	e.state.outcomes.Record(now, true)
	if e.state.ejected {
		return
	}
	reason := g.outlying(e, now)
	if reason == "" || !g.spare(now) {
		return
	}
	until := e.state.ejection.Eject(now, g.Outlier.BaseEjection)
	e.state.ejected = true
	g.shared.changed()
	g.shared.note(g.observer, Event{Kind: Ejected, Upstream: g.Name(), Endpoint: e.URL, Reason: reason, Until: until})
}

// outlying is why an endpoint is to be ejected, or empty. The caller holds the lock.
func (g *Group) outlying(e *Endpoint, now time.Time) string {
	consecutive, requests, bad := e.state.outcomes.Counts(now)
	o := g.Outlier
	if o.Consecutive > 0 && consecutive >= o.Consecutive {
		return failures(consecutive)
	}
	if o.ErrorRate == 0 || requests < max(1, o.MinRequests) || share(bad, requests) < o.ErrorRate {
		return ""
	}
	// Where the others fail as well it is not the endpoint that is at fault.
	others, theirs := 0, 0
	for _, one := range g.members.Load().endpoints {
		if one.state != e.state && !one.state.ejected {
			_, all, failed := one.state.outcomes.Counts(now)
			others, theirs = others+all, theirs+failed
		}
	}
	if others > 0 && share(theirs, others) >= o.ErrorRate {
		return ""
	}
	return fmt.Sprintf("%d of the last 10s' %d requests failed", bad, requests)
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
	return all > 0 && share(out+1, all) <= g.Outlier.MaxEjected
}

// share is a part of all. It is compared as it is: 7 of 25 is 28%, and 0.28 times 25
// is more than 7.
func share(part, all int) float64 { return float64(part) / float64(all) }

func failures(n int) string {
	if n == 1 {
		return "a failure"
	}
	return fmt.Sprintf("%d failures in a row", n)
}
