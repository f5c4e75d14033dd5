package config

import (
	"strings"

	"sluice/internal/model"
)

type fallback struct {
	located
	Status   *int          `config:"status" doc:"of a fixed response: from 200 to 599" default:"503"`
	Body     *Template     `config:"body" doc:"its body, with placeholders" default:"none"`
	Headers  Map[Template] `config:"headers" doc:"its fields, with placeholders"`
	Upstream *string       `config:"upstream" doc:"instead of a fixed response: the name of another upstream, or a URL"`
}

// fallback builds the fixed response that a fallback is, if it is one.
func (r *resolver) fallback(in *fallback) *model.Fallback {
	fixed := in.Status != nil || in.Body != nil || in.Headers != nil
	switch {
	case fixed && in.Upstream != nil:
		r.out.add(in.below("upstream"), "a fallback is another upstream or a fixed response, not both", "keep upstream, or status, body and headers")
		return nil
	case in.Upstream != nil:
		return &model.Fallback{}
	case !fixed:
		r.out.add(in.place, "the fallback says nothing", "write status and body, or upstream")
		return nil
	}
	written := respond{Status: 503, Body: in.Body, Headers: in.Headers}
	if in.Status != nil {
		written.Status = *in.Status
	}
	return &model.Fallback{Respond: r.fixed(&written, in.below, func(string, model.Template) {})}
}

// fallbacks finds the upstreams that others fall back to, once all are built.
func (r *resolver) fallbacks(d *document) {
	for i := range d.Upstreams {
		use := r.upstreams[d.Upstreams[i].Key]
		if use.key != d.Upstreams[i].key || use.fallback() == nil {
			continue
		}
		if in := use.in.CircuitBreaker.Fallback; in.Upstream != nil {
			use.fallback().Upstream = r.upstreamNamed(in.below("upstream"), in.src.Dir, *in.Upstream)
		}
	}
}

// fallback is where the upstream leads while its breaker is open; nil: nowhere.
func (u *upstreamUse) fallback() *model.Fallback {
	if u == nil || u.built == nil || u.built.Breaker == nil {
		return nil
	}
	return u.built.Breaker.Fallback
}

// fallbackCycles reports fallbacks that lead back to where they began, and cuts
// them, so that whoever follows one comes to an end.
func (r *resolver) fallbackCycles() {
	for _, name := range r.upstreamNames {
		way, seen := []string{name}, map[string]bool{name: true}
		for at := r.upstreams[name]; at.fallback() != nil && at.fallback().Upstream != nil; {
			next := at.fallback().Upstream.Name
			way = append(way, next)
			if next == name {
				first := r.upstreams[name]
				r.out.add(first.in.below("circuit_breaker.fallback.upstream"), "fallbacks lead in a circle: "+strings.Join(way, ", "), "let the last of them fall back to a fixed response, or to nothing")
				first.fallback().Upstream = nil
			}
			if seen[next] {
				break
			}
			seen[next] = true
			at = r.upstreams[next]
		}
	}
}

// checkFallbacks holds the placeholders of an upstream's fallback to the path of
// a route that may come to it.
func (r *resolver) checkFallbacks(route *model.Route, u *model.Upstream) {
	for u != nil {
		use := r.upstreams[u.Name]
		f := use.fallback()
		if f == nil {
			return
		}
		if f.Respond != nil {
			check := func(path string, t model.Template) {
				r.parameters(func() place { return use.in.below("circuit_breaker.fallback." + path) }, route, t)
			}
			if f.Respond.Body != nil {
				check("body", *f.Respond.Body)
			}
			for _, field := range f.Respond.Fields {
				check("headers."+field.Name, field.Value)
			}
		}
		u = f.Upstream
	}
}
