package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sluice/internal/model"
)

// streamIdle is the idle time-out of event streams and upgraded connections
// where the route writes none.
const (
	defaultIdle = 60 * time.Second
	streamIdle  = 5 * time.Minute
)

// routesOf builds the routes of a document.
func (r *resolver) routesOf(d *document) {
	for i := range d.Routes {
		if in := &d.Routes[i]; in.src != nil {
			r.route(in)
		}
	}
}

// route builds a route as far as its parts are sound.
func (r *resolver) route(in *route) {
	if in.ID != nil {
		r.id(in)
	}
	built := &model.Route{Priority: in.Priority, Position: in.position(), StripPrefix: in.StripPrefix}
	built.Match = r.match(in)
	if in.ID != nil {
		built.ID = *in.ID
	} else {
		built.ID = derivedID(built.Match)
		r.derived = append(r.derived, built)
	}
	built.Timeouts = model.RouteTimeouts{Response: time.Duration(in.Timeout), Idle: defaultIdle, IdleStream: streamIdle, Total: time.Duration(in.TotalTimeout)}
	if in.IdleTimeout != nil {
		built.Timeouts.Idle = time.Duration(*in.IdleTimeout)
		built.Timeouts.IdleStream = built.Timeouts.Idle
	}
	r.routeListeners(in, built)
	r.chain(in, built)
	if in.broken {
		return
	}
	r.destinations(in, built)
	r.rewrites(in, built)
	r.gateway.Routes = append(r.gateway.Routes, built)
}

func (r *resolver) id(in *route) {
	id := *in.ID
	switch first, taken := r.ids[id]; {
	case id == "":
		r.out.add(in.below("id"), "id is empty", "leave the key out for one that is derived from the match")
	case len(id) > 256 || strings.ContainsFunc(id, unicode.IsControl):
		r.out.add(in.below("id"), "id has control characters or more than 256 bytes", "")
	case taken:
		r.out.add(in.below("id"), fmt.Sprintf("the route id %s is defined twice: first at %s", short(id), first.below("id").position()), "give each route an id of its own")
	default:
		r.ids[id] = in.place
	}
}

// derivedID names a route after its match: GET api.example.com/users/{id}.
func derivedID(m model.Match) string {
	var out strings.Builder
	if len(m.Methods) > 0 {
		out.WriteString(strings.Join(m.Methods, ",") + " ")
	}
	out.WriteString(strings.Join(m.Hosts, ","))
	out.WriteString(m.Path.String())
	if out.Len() == 0 {
		return "any"
	}
	return strings.TrimSpace(out.String())
}

// nameRoutes makes derived ids unique; written ones stay as they are.
func (r *resolver) nameRoutes() {
	next := map[string]int{} // number, by derived id
	for _, built := range r.derived {
		id := built.ID
		for n := max(2, next[built.ID]); ; n++ {
			if _, taken := r.ids[id]; !taken {
				break
			}
			id = built.ID + " #" + strconv.Itoa(n)
			next[built.ID] = n + 1
		}
		built.ID = id
		r.ids[id] = place{}
	}
}

// routeListeners takes the names of listeners.
func (r *resolver) routeListeners(in *route, built *model.Route) {
	if in.Listeners != nil && len(in.Listeners) == 0 {
		r.out.add(in.below("listeners"), "listeners is an empty list, so that no request could reach the route", "leave the key out for all listeners")
	}
	seen := newNames(len(in.Listeners))
	for i, name := range in.Listeners {
		where := item("listeners", i)
		switch _, ok := r.listeners[name]; {
		case !ok && !r.incomplete && name != "":
			r.out.add(in.below(where), fmt.Sprintf("there is no listener %s", short(name)), r.out.hint(name, r.listenerNames))
		case seen[name]:
			r.out.add(in.below(where), fmt.Sprintf("the listener %s is named twice", name), "")
		}
		seen.note(name)
	}
	built.Listeners = in.Listeners
}
