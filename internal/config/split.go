package config

import (
	"fmt"

	"sluice/internal/model"
)

type side struct {
	located
	Upstream string `config:"upstream,required" doc:"the name of an upstream, or a URL as a short form"`
	Weight   weight `config:"weight" doc:"its share, relative to the others': a whole number, or percentages that add up to 100%"`
	Version  string `config:"version" doc:"the label of the release, as v1"`
}

// SetDefaults gives a side the weight of the others.
func (s *side) SetDefaults() { s.Weight.share = 1 }

type sticky struct {
	By key `config:"by,required" doc:"what keeps a user on one side: header:NAME, cookie:NAME, query:NAME, jwt:CLAIM or client_ip"`
}

// defaultForceHeader is the request's field that names a version where none is
// written.
const defaultForceHeader = "X-Canary-Version"

// split builds how a route's exchanges are shared out; nil: they are not.
func (r *resolver) split(in *route, route *model.Route) *model.Split {
	if in.Split == nil {
		for _, option := range []struct {
			key     string
			written bool
		}{{"sticky", in.Sticky != nil}, {"force_header", in.ForceHeader != nil}, {"failover", in.Failover}} {
			if option.written {
				r.out.add(in.below(option.key), option.key+" needs the destination split", "remove it, or write split: [{upstream: NAME, weight: 95%}, …]")
			}
		}
		return nil
	}
	built := &model.Split{ForceHeader: defaultForceHeader, Failover: in.Failover}
	if in.Sticky != nil {
		built.Sticky = in.Sticky.By.built()
	}
	if len(in.Split) == 0 {
		r.out.add(in.below("split"), "split is an empty list, so that there is no destination", "write [{upstream: NAME, weight: 95%}, …]")
		return built
	}
	r.sides(in, route, built)
	if in.ForceHeader != nil {
		built.ForceHeader = *in.ForceHeader
		if !isToken(built.ForceHeader) {
			r.out.add(in.below("force_header"), fmt.Sprintf("%s is no name of a header field", short(built.ForceHeader)), "")
		}
	}
	return built
}

// sides builds the sides of a split.
func (r *resolver) sides(in *route, route *model.Route, built *model.Split) {
	weights, named := make([]weight, len(in.Split)), 0
	versions, plain := newNames(len(in.Split)), newNames(len(in.Split))
	for i := range in.Split {
		s := &in.Split[i]
		weights[i] = s.Weight
		out := model.Side{Upstream: r.upstreamNamed(s.below("upstream"), s.src.Dir, s.Upstream), Weight: s.Weight.share, Version: s.Version}
		switch {
		case s.Version == "" && plain[s.Upstream]:
			r.out.add(s.below("upstream"), fmt.Sprintf("the split has the upstream %s twice", s.Upstream), "give one side the weight of both")
		case s.Version == "":
			plain.note(s.Upstream)
		case !isToken(s.Version):
			r.out.add(s.below("version"), fmt.Sprintf("version must be a label such as v1, not %s", short(s.Version)), "")
		case versions[s.Version]:
			r.out.add(s.below("version"), fmt.Sprintf("the split has the version %s twice", s.Version), "give each side a version of its own")
		}
		named += boolInt(s.Version != "")
		versions.note(s.Version)
		r.labelled(s, out.Upstream)
		r.checkFallbacks(route, out.Upstream)
		built.Sides = append(built.Sides, out)
	}
	for i, divisor := 0, r.weights(in.below("split"), "the split of the route "+short(route.ID), "side", weights); i < len(built.Sides); i++ {
		built.Sides[i].Weight /= divisor
	}
	if in.ForceHeader != nil && named == 0 {
		r.out.add(in.below("force_header"), "force_header names a version, and no side has one", "give each side a version, or remove it")
	}
}

// labelled warns of versions of endpoints that nobody sees, since their side has
// another.
func (r *resolver) labelled(s *side, u *model.Upstream) {
	if s.Version == "" || u == nil {
		return
	}
	for _, e := range u.Endpoints {
		if e.Version != "" && e.Version != s.Version {
			r.out.warn(s.below("version"), fmt.Sprintf("the side's version %s wins over %s, which the upstream %s gives its endpoint %s", s.Version, e.Version, u.Name, e.URL), "remove one of them")
			return
		}
	}
}
