package router

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"sluice/internal/message"
	"sluice/internal/model"
)

// conditions are what an entry asks of a request besides host, path and
// standard methods.
type conditions struct {
	listeners []string // nil: all
	others    []string // methods that are not standard
	clients   []netip.Prefix
	path      *regexp.Regexp
	headers   []condition
	query     []condition
	cookies   []condition
}

// condition is one condition on a header, query parameter or cookie.
type condition struct {
	model.Condition
	id message.Name // of a header
}

func newConditions(route *model.Route, others []string) *conditions {
	m := &route.Match
	c := &conditions{
		listeners: route.Listeners, others: others, clients: m.ClientIP,
		headers: compileConditions(m.Headers), query: compileConditions(m.Query), cookies: compileConditions(m.Cookies),
	}
	if m.Path.Kind == model.RegexPath {
		c.path = m.Path.Regex
	}
	return c
}

func (c *conditions) empty() bool {
	return c.listeners == nil && len(c.others) == 0 && len(c.clients) == 0 && c.path == nil &&
		len(c.headers) == 0 && len(c.query) == 0 && len(c.cookies) == 0
}

func compileConditions(list []model.Condition) []condition {
	compiled := make([]condition, len(list))
	for i, c := range list {
		if c.Value == nil && c.Regex == nil && c.Present == nil {
			panic("BUG: a condition on " + c.Name + " has no check")
		}
		compiled[i] = condition{Condition: c, id: message.Lookup(c.Name)}
	}
	return compiled
}

// fits tells whether a value, or that there is none, is what c asks for.
func (c *condition) fits(value string, there bool) bool {
	switch {
	case c.Value != nil:
		return there && value == *c.Value
	case c.Regex != nil:
		return there && c.Regex.MatchString(value)
	}
	return there == *c.Present
}

// header looks at the first line with the name; Host is the authority.
func (c *condition) header(request *message.Request) bool {
	switch c.id {
	case message.Host:
		return c.fits(request.Host, request.Host != "")
	case message.Other:
		return c.fits(request.Fields.Find(c.Name))
	}
	for i := range request.Fields {
		if request.Fields[i].ID == c.id {
			return c.fits(request.Fields[i].Value, true)
		}
	}
	return c.fits("", false)
}

// parameter looks at the first query parameter with the name.
func (c *condition) parameter(request *message.Request) bool {
	raw, there := message.Parameter(request.Query, c.Name)
	if c.Value != nil {
		return there && message.ParameterIs(raw, *c.Value)
	}
	if c.Regex != nil && there {
		raw = message.DecodeParameter(raw)
	}
	return c.fits(raw, there)
}

// cookie looks at the first cookie with the name.
func (c *condition) cookie(request *message.Request) bool {
	return c.fits(request.Fields.Cookie(c.Name))
}

// same is a text that is equal for conditions that ask for the same.
func (c *condition) same(where string) string {
	name := c.Name
	if where == "header" {
		name = strings.ToLower(name)
	}
	switch {
	case c.Value != nil:
		return fmt.Sprintf("%s %q = %q", where, name, *c.Value)
	case c.Regex != nil:
		return fmt.Sprintf("%s %q ~ %q", where, name, c.Regex)
	}
	return fmt.Sprintf("%s %q %t", where, name, *c.Present)
}

// unmet says in words what c asks for and the request is not.
func (c *condition) unmet(where string) string {
	switch {
	case c.Value != nil:
		return fmt.Sprintf("%s %s is not %q", where, c.Name, *c.Value)
	case c.Regex != nil:
		return fmt.Sprintf("%s %s does not match %s", where, c.Name, c.Regex)
	case *c.Present:
		return fmt.Sprintf("%s %s is not there", where, c.Name)
	}
	return fmt.Sprintf("%s %s is there", where, c.Name)
}

func contains(prefixes []netip.Prefix, client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	for _, prefix := range prefixes {
		if prefix.Contains(client) {
			return true
		}
	}
	return false
}

// hold tells whether all conditions but the method hold.
func (c *conditions) hold(s *search) bool {
	if c.listeners != nil && !slices.Contains(c.listeners, s.listener) {
		return false
	}
	if len(c.clients) != 0 && !contains(c.clients, s.client) {
		return false
	}
	for i := range c.headers {
		if !c.headers[i].header(s.request) {
			return false
		}
	}
	for i := range c.query {
		if !c.query[i].parameter(s.request) {
			return false
		}
	}
	for i := range c.cookies {
		if !c.cookies[i].cookie(s.request) {
			return false
		}
	}
	return c.path == nil || rooted(s.request.Path) && c.path.MatchString(s.request.Path)
}
