package upstream

import "time"

// view is which endpoints are fit, at a time. It is immutable.
type view struct {
	epoch     uint64
	roll      *roll
	until     time.Time // when it may be otherwise by time alone; zero: never
	usable    []*Endpoint
	panicking bool // health and ejection are ignored
	warming   bool // an endpoint starts slowly
}

// look is the view of now; nil: the endpoints are not known yet.
func (g *Group) look(now time.Time) *view {
	v, members := g.view.Load(), g.members.Load()
	if v != nil && v.roll == members && v.epoch == g.shared.epoch.Load() && (v.until.IsZero() || now.Before(v.until)) {
		return v
	}
	if members == nil {
		return nil
	}
	g.shared.mu.Lock()
	defer g.shared.mu.Unlock()
	v = g.see(members, now)
	g.view.Store(v)
	return v
}

// see makes a view. The caller holds the lock.
func (g *Group) see(members *roll, now time.Time) *view {
	v := &view{epoch: g.shared.epoch.Load(), roll: members}
	var all, fit, new []*Endpoint
	for _, e := range members.endpoints {
		if e.Weight == 0 || e.state.drained.Load() {
			continue
		}
		all = append(all, e)
		g.restore(e, now)
		switch {
		case g.Outlier != nil && e.state.ejection.Out(now):
			v.sooner(e.state.ejection.Until())
		case g.Health == nil || e.state.of() == healthy:
			fit = append(fit, e)
		case e.state.of() == unknown:
			new = append(new, e)
		}
		if at := e.state.back.Add(g.SlowStart); g.SlowStart > 0 && !e.state.back.IsZero() && now.Before(at) {
			v.warming = true
			v.sooner(at)
		}
	}
	v.panicking = len(all) > 0 && float64(len(fit)+len(new)) < g.PanicThreshold*float64(len(all))
	switch {
	case v.panicking:
		v.usable = all
	case len(fit) > 0:
		v.usable = fit
	default:
		v.usable = new
	}
	return v
}

// sooner lets the view end at a time at the latest.
func (v *view) sooner(at time.Time) {
	if v.until.IsZero() || at.Before(v.until) {
		v.until = at
	}
}

// restore notes when an ejection is over. The caller holds the lock.
func (g *Group) restore(e *Endpoint, now time.Time) {
	if !e.state.ejected || e.state.ejection.Out(now) {
		return
	}
	e.state.ejected = false
	e.state.back = e.state.ejection.Until()
	e.state.outcomes.Reset()
	g.observer.tell(Event{Kind: Returned, Upstream: g.Name(), Endpoint: e.URL, Reason: "its time is over"})
}
