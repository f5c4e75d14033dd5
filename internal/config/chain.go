package config

import (
	"fmt"
	"slices"

	"sluice/internal/model"
)

// chain composes global, without what the route skips, and the route's own.
func (r *resolver) chain(in *route, built *model.Route) {
	own := r.chains.chain(in.Middleware, "route")
	kept, skipped := r.skip(in)
	for i := range skipped {
		built.Skipped = append(built.Skipped, skipped[i].Middleware)
	}
	links := ordered(slices.Concat(kept, own))
	if len(own) == len(in.Middleware) && len(r.global) == r.globalWritten() {
		r.checkOrder(links)
	}
	r.checkCertifying(links, built)
	r.checkTwice(links, built.ID)
	for i := range links {
		links[i].made.check(r.out, built.ID, built.Match.Path)
		built.Chain = append(built.Chain, links[i].Middleware)
	}
}

// ordered puts those first that go before all others.
func ordered(links []link) []link {
	rank := func(l link) int {
		if l.Role.Is(model.Outermost) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(links, func(a, b link) int { return rank(a) - rank(b) })
	return links
}

// checkOrder reports what would let somebody pass whom the chain means to refuse, or the
// other way round, and what would go by who the client is and does not know.
func (r *resolver) checkOrder(links []link) {
	var answering *link
	identified := false
	for i := range links {
		l := &links[i]
		if l.Role.Is(model.Outermost) {
			r.checkOutermost(l, links[:i])
		}
		if l.Role.Is(model.Refusing) && answering != nil {
			r.misplaced(l, fmt.Sprintf("%s stands behind %s, which may answer before it is asked", l.Kind, answering.Kind), "move it before "+answering.Kind)
		}
		if l.Role.Is(model.Identified) && !identified {
			r.misplaced(l, l.Kind+" would refuse everybody: nothing before it tells who the client is", "put before it what does, as jwt or api_key")
		}
		if l.Role.Is(model.Telling) {
			r.checkTelling(l, identified, links[i+1:])
		}
		if l.Role.Is(model.Answering) {
			answering = l
		}
		identified = identified || l.Role.Is(model.Identifying)
	}
}

// checkOutermost reports one that another of its kind stands around: that one alone has the
// say.
func (r *resolver) checkOutermost(l *link, before []link) {
	if at := slices.IndexFunc(before, func(other link) bool { return other.Kind == l.Kind }); at >= 0 {
		r.misplaced(l, fmt.Sprintf("%s stands on the route twice, and only the first, of %s, has any effect", l.Kind, before[at].From), r.oneOf(&before[at], l, l.Kind))
	}
}

// checkTwice warns of a named middleware that requests meet more than once, as of the
// route's own and of global: of a limit they take twice, and what has seen a nonce refuses it.
func (r *resolver) checkTwice(links []link, route string) {
	for i := range links {
		l := &links[i]
		first := slices.IndexFunc(links[:i], func(other link) bool { return other.Name == l.Name })
		if l.Name == "" || first < 0 || l.Role.Is(model.Outermost) || r.out.told(l.place, "twice") {
			continue
		}
		r.out.warn(l.place, fmt.Sprintf("requests of the route %s have met %s at %s already: it acts on them twice", short(route), l.Name, links[first].Position), r.oneOf(&links[first], l, l.Name))
	}
}

// oneOf is how a route comes to have one of two, by the name under which the first can be
// skipped if it is global's alone.
func (r *resolver) oneOf(first, second *link, name string) string {
	global := func(l *link) bool {
		return slices.ContainsFunc(r.global, func(g link) bool { return g.place == l.place })
	}
	if global(first) && !global(second) {
		return "remove it here, or write skip: [" + name + "] to leave out that of global"
	}
	return "remove one of them"
}

// checkCertifying reports what goes by the certificates of clients where no listener of the
// route asks for any.
func (r *resolver) checkCertifying(links []link, built *model.Route) {
	at := slices.IndexFunc(links, func(l link) bool { return l.Role.Is(model.Certifying) })
	unknown := func(name string) bool {
		_, ok := r.listeners[name]
		return !ok
	}
	if at < 0 || r.incomplete || len(r.gateway.Listeners) < len(r.listeners) || slices.ContainsFunc(built.Listeners, unknown) {
		return // it cannot be told
	}
	asks := func(l *model.Listener) bool {
		return (built.Listeners == nil || slices.Contains(built.Listeners, l.Name)) && l.TLS != nil && l.TLS.ClientAuth.Mode != model.ClientAuthNone
	}
	if l := &links[at]; !slices.ContainsFunc(r.gateway.Listeners, asks) && !r.out.told(l.place, "certifying") {
		r.out.add(l.place, fmt.Sprintf("%s would refuse everybody: no listener of the route %s asks clients for certificates", l.Kind, short(built.ID)),
			"write client_auth: {mode: optional, ca: FILE} under the tls of one, or skip it on this route")
	}
}

// checkTelling looks at one that goes by who the client is. Where nobody tells on a
// route, that may be meant: the same middleware may serve others, where somebody does.
func (r *resolver) checkTelling(l *link, identified bool, behind []link) {
	later := slices.IndexFunc(behind, func(other link) bool { return other.Role.Is(model.Identifying) })
	switch {
	case identified:
		r.told[l.place] = true
	case later >= 0:
		r.misplaced(l, fmt.Sprintf("%s goes by who the client is, which only %s behind it tells", l.Kind, behind[later].Kind), "move it behind "+behind[later].Kind)
	default:
		r.untold = append(r.untold, *l)
	}
}

// warnUntold warns of those that go by who the client is, and stand on no route where
// anybody tells.
func (r *resolver) warnUntold() {
	for _, l := range r.untold {
		if !r.told[l.place] {
			r.out.warn(l.place, l.Kind+" goes by who the client is, and nothing before it tells: all are nobody", "put before it what does, as jwt or api_key")
		}
	}
}

// misplaced reports a middleware that stands in the wrong place, once for all routes
// that have it there.
func (r *resolver) misplaced(l *link, message, hint string) {
	if !r.out.told(l.place, message) {
		r.out.add(l.place, message, hint)
	}
}

// skip parts what a route takes of global from what it leaves out.
func (r *resolver) skip(in *route) (kept, skipped []link) {
	if len(in.Skip) == 0 {
		return r.global, nil
	}
	named := func(name string) func(l link) bool {
		return func(l link) bool { return l.Kind == name || l.Name != "" && l.Name == name }
	}
	for i, name := range in.Skip {
		r.checkSkipped(in.below(item("skip", i)), name)
		if !slices.ContainsFunc(r.global, named(name)) && !in.broken && !r.incomplete && len(r.global) == r.globalWritten() {
			r.out.add(in.below(item("skip", i)), fmt.Sprintf("skip names %s, and global has no middleware of that kind or name", short(name)), r.out.hint(name, r.skippable()))
		}
	}
	for _, l := range r.global {
		if slices.ContainsFunc(in.Skip, func(name string) bool { return named(name)(l) }) {
			skipped = append(skipped, l)
		} else {
			kept = append(kept, l)
		}
	}
	return kept, skipped
}

// checkSkipped reports a name that would leave out more than is meant: those of a kind, and
// one of another kind that is named so.
func (r *resolver) checkSkipped(where place, name string) {
	ofKind := slices.ContainsFunc(r.global, func(l link) bool { return l.Kind == name })
	at := slices.IndexFunc(r.global, func(l link) bool { return l.Name == name && l.Kind != name })
	if ofKind && at >= 0 {
		r.out.add(where, fmt.Sprintf("skip names %s, which is a kind of middleware and the name of a %s: both would be left out", short(name), r.global[at].Kind), "give the "+r.global[at].Kind+" another name")
	}
}

// globalWritten is how many steps global has, sound or not.
func (r *resolver) globalWritten() int {
	for _, d := range r.documents {
		if d.has("global") != nil {
			return len(d.Global)
		}
	}
	return 0
}

// skippable are the kinds and names of global.
func (r *resolver) skippable() (names []string) {
	for _, m := range r.global {
		for _, name := range []string{m.Name, m.Kind} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
