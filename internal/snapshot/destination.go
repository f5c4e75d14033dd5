package snapshot

import (
	"fmt"
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
	return &Destination{Kind: "upstream", Upstream: route.Upstream.Name, Target: endpoints(route.Upstream), Reason: "the route's upstream; " + route.Upstream.Balancer.Policy + " picks the endpoint"}
}

// sideOf tells the side of a split that a request asks for, or else the shares
// of all.
func sideOf(split *model.Split, request *message.Request) *Destination {
	if version, _ := request.Fields.Find(split.ForceHeader); version != "" {
		for _, side := range split.Sides {
			if side.Version == version {
				return &Destination{
					Kind: "split", Upstream: side.Upstream.Name, Version: version, Target: endpoints(side.Upstream),
					Reason: split.ForceHeader + " names the version; " + side.Upstream.Balancer.Policy + " picks the endpoint",
				}
			}
		}
	}
	reason := "each exchange by chance"
	if split.Sticky != nil {
		reason = keyText(split.Sticky) + " keeps a user on one side; without it by chance"
	}
	return &Destination{Kind: "split", Target: shares(split), Reason: reason}
}

func keyText(key *model.Key) string {
	if key.Name == "" {
		return string(key.Source)
	}
	return string(key.Source) + ":" + key.Name
}

// shares are the sides of a split: 95% shop (v1), 5% shop-next (v2).
func shares(split *model.Split) string {
	sum := 0
	for _, side := range split.Sides {
		sum += side.Weight
	}
	list := make([]string, len(split.Sides))
	for i, side := range split.Sides {
		share := strconv.FormatFloat(float64(side.Weight)*100/float64(sum), 'f', 2, 64)
		list[i] = strings.TrimSuffix(strings.TrimRight(share, "0"), ".") + "% " + side.Upstream.Name
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
