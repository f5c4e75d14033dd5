package upstream

import "time"

// Drain lets the endpoints with a URL get no new attempt, or lets them get such
// again, slowly at first; it tells whether there are any. What is under way goes on.
func (g *Group) Drain(url string, drained bool) (found bool) {
	members := g.members.Load()
	if members == nil {
		return false
	}
	g.shared.mu.Lock()
	defer g.shared.unlock()
	for _, e := range members.endpoints {
		if e.URL != url {
			continue
		}
		found = true
		if e.state.drained.Swap(drained) == drained {
			continue
		}
		to := "drained"
		if !drained {
			to = "undrained"
			e.state.back = time.Now()
		}
		g.shared.changed()
		g.shared.note(g.observer, Event{Kind: DrainChanged, Upstream: g.Name(), Endpoint: e.URL, To: to, Reason: "asked for"})
	}
	return found
}
