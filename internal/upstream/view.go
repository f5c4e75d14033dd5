package upstream

import "time"

// view is which endpoints are fit, and their shares, at a time. It is immutable.
type view struct {
	epoch     uint64
	roll      *roll
	until     time.Time // when it may be otherwise by time alone; zero: never
	usable    field
	panicking bool // health and ejection are ignored
}

// valid tells whether the view is still what there is to see.
func (v *view) valid(members *roll, epoch uint64, now time.Time) bool {
	return v != nil && v.roll == members && v.epoch == epoch && (v.until.IsZero() || now.Before(v.until))
}

// look is the view of now; nil: the endpoints are not known yet.
func (g *Group) look(now time.Time) *view {
	members := g.members.Load()
	if v := g.view.Load(); v.valid(members, g.shared.epoch.Load(), now) {
		return v
	}
	if members == nil {
		return nil
	}
	g.shared.mu.Lock()
	defer g.shared.unlock()
	// The epoch is read before what it is about: what changes meanwhile raises it
	// afterwards, and the view is made once more.
	epoch := g.shared.epoch.Load()
	v := g.view.Load()
	if !v.valid(members, epoch, now) { // nobody else has made it meanwhile
		v = g.see(members, epoch, now)
		g.view.Store(v)
	}
	return v
}

// see makes a view. The caller holds the lock.
func (g *Group) see(members *roll, epoch uint64, now time.Time) *view {
	v := &view{epoch: epoch, roll: members}
	var all, fit, fresh []*Endpoint
	for _, e := range members.endpoints {
		if e.Weight == 0 || e.state.drained.Load() {
			continue
		}
		all = append(all, e)
		g.restore(e, now)
		switch {
		case g.Outlier != nil && e.state.ejection.Out(now):
			v.sooner(e.state.ejection.Until())
		case g.Health == nil || e.state.health == healthy:
			fit = append(fit, e)
		case e.state.health == unknown:
			fresh = append(fresh, e)
		}
	}
	v.panicking = len(all) > 0 && share(len(fit)+len(fresh), len(all)) < g.PanicThreshold
	switch {
	case v.panicking:
		fit = all
	case len(fit) == 0:
		fit = fresh
	}
	g.weigh(v, fit, now)
	return v
}

// weigh makes the endpoints those that a view has, with their shares. While one
// starts slowly the view holds for one step of that. The caller holds the lock.
func (g *Group) weigh(v *view, endpoints []*Endpoint, now time.Time) {
	for _, e := range endpoints {
		v.usable.add(e, e.weight(g.SlowStart, now))
		if until, starts := e.state.starting(g.SlowStart, now); starts {
			v.sooner(until)
			v.sooner(now.Add(max(g.SlowStart/scale, time.Millisecond)))
		}
	}
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
	g.shared.note(g.observer, Event{Kind: Returned, Upstream: g.Name(), Endpoint: e.URL, Reason: "its time is over"})
}
