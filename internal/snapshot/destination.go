package snapshot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/message"
	"sluice/internal/model"
)

// Destination is where a route leads.
type Destination struct {
	Kind     string `json:"kind"`               // upstream, split, redirect or respond
	Upstream string `json:"upstream,omitempty"` // its name; of a split: where the request itself says so
	Version  string `json:"version,omitempty"`  // of a split's side, likewise
	Target   string `json:"target"`             // in words: the endpoints, the shares, the location, the status
	Reason   string `json:"reason"`
	// Breaker is when its circuit breaker opens and what clients get then; empty:
	// there is none.
	Breaker string `json:"breaker,omitempty"`
}

// destinationOf tells where a route leads a request.
func destinationOf(route *model.Route, request *message.Request) *Destination {
	switch {
	case route.Respond != nil:
		return &Destination{Kind: "respond", Target: fmt.Sprintf("status %d", route.Respond.Status), Reason: "the route answers by itself"}
	case route.Redirect != nil:
		return &Destination{Kind: "redirect", Target: fmt.Sprintf("%d %s", route.Redirect.Status, route.Redirect.To), Reason: "the route redirects"}
	case route.Split != nil:
		return sideOf(route.Split, request)
	}
	return to(&Destination{Kind: "upstream", Reason: "the route's upstream"}, route.Upstream)
}

// sideOf tells the side of a split that a request asks for, or else the shares
// of all.
func sideOf(split *model.Split, request *message.Request) *Destination {
	if version, _ := request.Fields.Find(split.ForceHeader); version != "" {
		for _, side := range split.Sides {
			if side.Version == version {
				return to(&Destination{Kind: "split", Version: version, Reason: split.ForceHeader + " names the version"}, side.Upstream)
			}
		}
	}
	reason := "each exchange by chance"
	if split.Sticky != nil {
		reason = split.Sticky.String() + " keeps a user on one side; without it by chance"
	}
	if split.Failover {
		reason += "; a side without an available endpoint gives its share to the others"
	}
	var guards []string
	for _, m := range leads(split, "") {
		if guard := guardOf(m); guard != "" {
			guards = append(guards, m.Name+" "+guard)
		}
	}
	return &Destination{Kind: "split", Target: shares(split), Reason: reason, Breaker: strings.Join(guards, "; ")}
}

// leads are the upstreams of a split, each once: all, or the one with a name.
func leads(split *model.Split, name string) (list []*model.Upstream) {
	for _, side := range split.Sides {
		if !slices.Contains(list, side.Upstream) && (name == "" || side.Upstream.Name == name) {
			list = append(list, side.Upstream)
		}
	}
	return list
}

// to completes a destination that is one upstream.
func to(d *Destination, m *model.Upstream) *Destination {
	d.Upstream, d.Target, d.Breaker = m.Name, endpoints(m), guardOf(m)
	d.Reason += "; " + m.Balancer.Policy
	if m.Balancer.HashOn != nil {
		d.Reason += " on " + m.Balancer.HashOn.String()
	}
	d.Reason += " picks the endpoint"
	return d
}

// guardOf tells when an upstream's circuit breaker opens, and what clients get then.
func guardOf(m *model.Upstream) string {
	b := m.Breaker
	if b == nil {
		return ""
	}
	var when []string
	if b.Consecutive > 0 {
		when = append(when, fmt.Sprintf("%d failures in a row", b.Consecutive))
	}
	if b.ErrorRate > 0 {
		when = append(when, fmt.Sprintf("%s failures", percent(b.ErrorRate)))
	}
	if b.SlowCall != nil {
		when = append(when, fmt.Sprintf("%s slower than %v", percent(b.SlowCall.Rate), b.SlowCall.LongerThan))
	}
	what, then := "opens", "503 circuit_open"
	if b.Scope == model.ScopeEndpoint {
		what = "opens for each endpoint alone"
	}
	switch f := b.Fallback; {
	case f != nil && f.Respond != nil:
		then = fmt.Sprintf("status %d", f.Respond.Status)
	case f != nil:
		then = "upstream " + f.Upstream.Name
	}
	return fmt.Sprintf("%s after %s, for %v; clients get %s", what, strings.Join(when, " or "), b.OpenFor, then)
}

// percent is a share as one writes it.
func percent(share float64) string {
	text := strconv.FormatFloat(share*100, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}

// shares are the sides of a split: 95% shop (v1), 5% shop-next (v2).
func shares(split *model.Split) string {
	sum := 0
	for _, side := range split.Sides {
		sum += side.Weight
	}
	list := make([]string, len(split.Sides))
	for i, side := range split.Sides {
		list[i] = percent(float64(side.Weight)/float64(sum)) + " " + side.Upstream.Name
		if side.Version != "" {
			list[i] += " (" + side.Version + ")"
		}
	}
	return strings.Join(list, ", ")
}

// endpoints are those of an upstream, or where they are looked up.
func endpoints(m *model.Upstream) string {
	switch {
	case m.DNS != nil && m.DNS.Port == 0:
		return m.DNS.Scheme + " endpoints of the SRV records of " + m.DNS.Name
	case m.DNS != nil:
		return fmt.Sprintf("%s endpoints of the addresses of %s, port %d", m.DNS.Scheme, m.DNS.Name, m.DNS.Port)
	}
	urls := make([]string, len(m.Endpoints))
	for i, endpoint := range m.Endpoints {
		urls[i] = endpoint.URL
		if len(urls) > 1 {
			urls[i] += fmt.Sprintf(" (weight %d)", endpoint.Weight)
		}
	}
	return strings.Join(urls, ", ")
}

// destinationText is a destination in the route table.
func destinationText(route *model.Route) string {
	switch {
	case route.Upstream != nil:
		return "upstream " + route.Upstream.Name
	case route.Split != nil:
		return "split " + shares(route.Split)
	}
	destination := destinationOf(route, nil)
	return destination.Kind + " " + destination.Target
}
