package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/router"
	"sluice/internal/upstream"
)

// Explanation says what happens to one request, and why.
type Explanation struct {
	Route       string       `json:"route"` // empty: none
	Candidates  []Candidate  `json:"candidates"`
	Middleware  []Step       `json:"middleware"`
	Skipped     []Step       `json:"skipped,omitempty"` // middleware of global that the route leaves out
	Destination *Destination `json:"destination"`       // nil: none
	// Refused is why no route serves it: what the client would read.
	Refused string `json:"refused,omitempty"`
	// Path is the canonical path that was routed.
	Path string `json:"path"`
	// Upstreams and Breakers are, of a gateway that runs, how it stands with those
	// where the request may go.
	Upstreams []upstream.Status        `json:"upstreams,omitempty"`
	Breakers  []upstream.BreakerStatus `json:"breakers,omitempty"`
}

// Candidate is a route that was tried, in order.
type Candidate struct {
	Route  string `json:"route"`
	Failed string `json:"failed"` // the first predicate that failed; empty: matched
}

// Step is one middleware of a chain.
type Step struct {
	Kind string `json:"kind"`
	From string `json:"from"` // global, route, with the name of a named one
}

// Explain tells how a request that came to a listener would be served, without
// serving it. The request's Path is raw; without a listener's name the port of
// its Host tells, else it is the first. The error is a *QuestionError: there is no
// such listener.
func (c *Compiled) Explain(request *message.Request, listener string, client netip.Addr) (*Explanation, error) {
	m, err := c.listener(listener, request.Host)
	if err != nil {
		return nil, err
	}
	x := &pipeline.Exchange{Request: request, Listener: m, ClientIP: client}
	out := &Explanation{Candidates: []Candidate{}, Middleware: []Step{}}
	if err := pipeline.Admit(x, func(error) {}); err != nil {
		out.Refused, out.Path = refusal(err), request.Path
		return out, nil
	}
	out.Path = request.Path
	for _, candidate := range c.Router.Explain(request, m.Name, x.ClientIP) {
		out.Candidates = append(out.Candidates, Candidate{candidate.Route.ID, candidate.Failed})
	}
	found := c.Router.Match(request, m.Name, x.ClientIP)
	if found.Index < 0 {
		out.Refused = refusal(unmatched(found.Allow))
		return out, nil
	}
	route := c.Router.Routes()[found.Index]
	out.Route, out.Middleware, out.Skipped, out.Destination = route.ID, steps(route.Chain), skippedBy(route), destinationOf(route, request)
	return out, nil
}

// Explain is that of Compiled, and tells how it stands with the upstreams.
func (s *Snapshot) Explain(request *message.Request, listener string, client netip.Addr) (*Explanation, error) {
	out, err := s.Compiled.Explain(request, listener, client)
	if err != nil || out.Destination == nil {
		return out, err
	}
	for _, route := range s.Router.Routes() {
		if route.ID == out.Route {
			s.tellState(out, route)
		}
	}
	return out, nil
}

// tellState puts into an explanation how it stands with the upstreams.
func (s *Snapshot) tellState(out *Explanation, route *model.Route) {
	asked := []*model.Upstream{route.Upstream}
	if route.Split != nil {
		asked = leads(route.Split, out.Destination.Upstream)
	}
	now := time.Now()
	for _, group := range s.Upstreams {
		if slices.Contains(asked, group.Upstream) {
			out.Upstreams = append(out.Upstreams, group.Status(now))
			out.Breakers = append(out.Breakers, group.Breakers(now)...)
		}
	}
}

func refusal(err error) string {
	e := pipeline.AsError(err)
	text := fmt.Sprintf("%d %s: %s", e.Status, e.Word, e.Detail)
	if allow := e.Fields.Get(message.Allow); allow != "" {
		text += " Allowed: " + allow + "."
	}
	return text
}

// listener is the one with a name, or, without a name, the one to which a
// request for this host would come: by its port, else the first.
func (c *Compiled) listener(name, host string) (*model.Listener, error) {
	listeners := c.Gateway.Listeners
	_, port, _ := net.SplitHostPort(host) // without a port none fits
	var names []string
	for _, m := range listeners {
		if name != "" && m.Name == name || name == "" && port != "" && strings.HasSuffix(m.Address, ":"+port) {
			return m, nil
		}
		names = append(names, m.Name)
	}
	if name == "" {
		return listeners[0], nil
	}
	return nil, &QuestionError{fmt.Sprintf("no listener is called %q; there are %s", name, strings.Join(names, ", "))}
}

// skippedBy is what a route leaves out of global; nil: nothing.
func skippedBy(route *model.Route) []Step {
	if len(route.Skipped) == 0 {
		return nil
	}
	return steps(route.Skipped)
}

// steps is what people see of middleware.
func steps(chain []model.Middleware) []Step {
	list := make([]Step, len(chain))
	for i, m := range chain {
		list[i] = Step{m.Kind, m.From}
	}
	return list
}

// Row is one route of the route table.
type Row struct {
	ID          string   `json:"id"`
	Priority    int      `json:"priority"`
	Listeners   []string `json:"listeners"` // empty: all
	Match       Match    `json:"match"`
	Middleware  []Step   `json:"middleware"`
	Skipped     []Step   `json:"skipped,omitempty"` // middleware of global that the route leaves out
	Destination string   `json:"destination"`
}

// Match is a route's match as people write it; what is empty is left out.
type Match struct {
	Hosts      []string          `json:"hosts,omitempty"`
	Path       string            `json:"path,omitempty"`
	PathPrefix string            `json:"path_prefix,omitempty"`
	PathRegex  string            `json:"path_regex,omitempty"`
	Methods    []string          `json:"methods,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Query      map[string]string `json:"query,omitempty"`
	Cookies    map[string]string `json:"cookies,omitempty"`
	ClientIP   []string          `json:"client_ip,omitempty"`
}

// Table is the route table in matching order.
func Table(table *router.Router) []Row {
	rows := make([]Row, 0, len(table.Routes()))
	for _, route := range table.Routes() {
		listeners := route.Listeners
		if listeners == nil {
			listeners = []string{}
		}
		rows = append(rows, Row{route.ID, route.Priority, listeners, matchOf(&route.Match), steps(route.Chain), skippedBy(route), destinationText(route)})
	}
	return rows
}

func matchOf(m *model.Match) Match {
	out := Match{Hosts: m.Hosts, Methods: m.Methods, Headers: conditions(m.Headers), Query: conditions(m.Query), Cookies: conditions(m.Cookies)}
	for _, prefix := range m.ClientIP {
		out.ClientIP = append(out.ClientIP, prefix.String())
	}
	switch m.Path.Kind {
	case model.ExactPath, model.PatternPath:
		out.Path = m.Path.Text
	case model.PrefixPath:
		out.PathPrefix = m.Path.Text
	case model.RegexPath:
		out.PathRegex = m.Path.Text
	case model.AnyPath:
	}
	return out
}

func conditions(list []model.Condition) map[string]string {
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]string, len(list))
	for _, c := range list {
		switch {
		case c.Value != nil:
			out[c.Name] = *c.Value
		case c.Regex != nil:
			out[c.Name] = "~ " + c.Regex.String()
		case *c.Present:
			out[c.Name] = "(present)"
		default:
			out[c.Name] = "(absent)"
		}
	}
	return out
}

// String is the match on one line; what is not said matches anything.
func (m Match) String() string {
	var parts []string
	add := func(text string) { parts = append(parts, text) }
	if len(m.Methods) > 0 {
		add(strings.Join(m.Methods, "|"))
	}
	if len(m.Hosts) > 0 {
		add(strings.Join(m.Hosts, "|"))
	}
	switch {
	case m.Path != "":
		add(m.Path)
	case m.PathPrefix != "":
		add(strings.TrimSuffix(m.PathPrefix, "/") + "/…")
	case m.PathRegex != "":
		add("~" + m.PathRegex)
	}
	for _, group := range []struct {
		word   string
		values map[string]string
	}{{"header", m.Headers}, {"query", m.Query}, {"cookie", m.Cookies}} {
		for _, name := range slices.Sorted(maps.Keys(group.values)) {
			add(group.word + " " + name + "=" + group.values[name])
		}
	}
	if len(m.ClientIP) > 0 {
		add("from " + strings.Join(m.ClientIP, "|"))
	}
	return cmp.Or(strings.Join(parts, " "), "anything")
}
