package config

import (
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"sluice/internal/model"
)

// laterKinds are the kinds of SPEC 5, so that one that is not built yet is told
// from a misspelled one.
var laterKinds = []string{
	"ip_filter",
	"body_limit", "compress", "headers", "mirror", "fault", "cache", "wasm", "grpc_json",
}

// definition is one middleware: a mapping of one kind to its options.
type definition struct {
	located
	kind     string
	role     model.Role
	settings any
	names    templateNames // path parameters that its templates use
}

// step is one middleware of a chain: a definition, or the name of one.
type step struct {
	definition
	name string
}

func (s *step) decode(d *decoder, n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		s.definition.decode(d, n)
		return
	}
	s.locate(d.here(n))
	faults := d.out.faults
	d.scalar(n, "the name of a middleware, or a mapping of a kind to its options such as {headers: {…}}", func(text scalar) *fault {
		if text.s == "" || !text.loose && text.nature() != isText {
			return unwanted("")
		}
		s.name = text.s
		return nil
	})
	s.broken = d.out.faults > faults
}

func (m *definition) decode(d *decoder, n *yaml.Node) {
	m.locate(d.here(n))
	faults := d.out.faults
	m.decodeKind(d, n)
	m.broken = d.out.faults > faults
}

func (m *definition) decodeKind(d *decoder, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, "a mapping of a kind to its options, such as {headers: {…}}", "")
		return
	}
	pairs := d.pairs(n)
	if len(pairs) != 1 {
		hint := ""
		if len(pairs) > 1 {
			hint = "write each kind as an item of its own: a chain has an order"
		}
		d.problem(n, fmt.Sprintf("%s must have one key, the kind, not %d", d.name(), len(pairs)), hint)
		return
	}
	key := pairs[0].key
	m.kind = key.Value
	for _, kind := range d.kinds {
		if kind.Name == m.kind {
			d.path = append(d.path, hop{m.kind, -1})
			m.options(d, kind, pairs[0].value)
			d.path = d.path[:len(d.path)-1]
			return
		}
	}
	d.unknownKind(key)
}

func (d *decoder) unknownKind(key *yaml.Node) {
	for _, later := range laterKinds {
		if later == key.Value {
			d.problem(key, fmt.Sprintf("the middleware kind %s is not supported yet", later), "")
			return
		}
	}
	var names []string
	for _, kind := range d.kinds {
		names = append(names, kind.Name)
	}
	d.problem(key, fmt.Sprintf("there is no middleware kind %s", short(key.Value)), d.out.hint(key.Value, names))
}

// options decodes and validates the options of a kind.
func (m *definition) options(d *decoder, kind Kind, n *yaml.Node) {
	options, faults := kind.Options(), d.out.faults
	outer := d.names
	d.names = nil
	n, ok := d.follow(n)
	switch {
	case ok && isNullNode(n): // a kind that needs no options may stand alone
		info := d.typeOf(reflect.TypeOf(options).Elem())
		d.needed(n, info, make([]*yaml.Node, len(info.fields)))
	case ok:
		d.into(n, options)
	}
	m.names, d.names = d.names, outer
	if d.out.faults > faults {
		return
	}
	m.settings = kind.Validate(options, func(path, message, hint string) {
		d.out.add(d.here(find(n, path)), message, hint)
	})
	if d.out.faults > faults {
		return
	}
	if kind.Role != nil {
		m.role = kind.Role(m.settings)
	}
	if kind.Warn != nil {
		kind.Warn(m.settings, func(path, message, hint string) { d.out.warn(d.here(find(n, path)), message, hint) })
	}
}

// check turns the names of path parameters that a middleware uses into problems
// where a route does not have them.
func (m *definition) check(out *collector, id string, path model.Path) {
	for _, use := range m.names {
		checkParameter(out, use.place, use.name, id, path)
	}
}

func hasParameter(path model.Path, name string) bool {
	return slices.ContainsFunc(path.Segments, func(s model.Segment) bool { return s.Param == name })
}

// checkParameter reports a placeholder that is neither built in nor a parameter
// of the route's path. It is told once, however many routes use the template.
func checkParameter(out *collector, where place, name, id string, path model.Path) {
	if hasParameter(path, name) {
		return
	}
	var parameters []string
	for _, segment := range path.Segments {
		if segment.Param != "" && segment.Param != "*" {
			parameters = append(parameters, segment.Param)
		}
	}
	if out.told(where, name) {
		return
	}
	hint := "write {{ and }} for braces"
	if near := out.nearest(name, placeholderNames(parameters)); near != "" {
		hint = "did you mean {" + near + "}?"
	}
	out.add(where, fmt.Sprintf("unknown placeholder {%s}: the path of the route %s has no such parameter", name, short(id)), hint)
}

// chainBuilder looks named middleware up and notes which of it is used.
type chainBuilder struct {
	r     *resolver
	named map[string]*definition
	used  map[string]bool
}

// link is one middleware of a route's chain, with what it was made of and where it is
// written.
type link struct {
	model.Middleware
	made  *definition
	place place
}

// chain turns steps into middleware. Unknown names are problems.
func (b *chainBuilder) chain(steps []step, from string) (chain []link) {
	for i := range steps {
		s := &steps[i]
		m, origin := &s.definition, from
		if s.name != "" {
			if m = b.lookup(s); m == nil {
				continue
			}
			origin += " " + s.name
		}
		if m.broken || s.broken {
			continue
		}
		chain = append(chain, link{
			model.Middleware{Kind: m.kind, Name: s.name, From: origin, Place: i, Role: m.role, Settings: m.settings, Position: s.position()},
			m, s.place,
		})
	}
	return chain
}

func (b *chainBuilder) lookup(s *step) *definition {
	if m := b.named[s.name]; m != nil {
		b.used[s.name] = true
		return m
	}
	if s.broken || b.r.incomplete {
		return nil
	}
	for _, kind := range b.r.kinds {
		if kind.Name == s.name {
			b.r.out.add(s.place, fmt.Sprintf("%s is a kind of middleware, and none is named so", s.name), fmt.Sprintf("write {%s: {…}} with its options", s.name))
			return nil
		}
	}
	b.r.out.add(s.place, fmt.Sprintf("there is no middleware named %s", short(s.name)), b.r.out.hint(s.name, b.r.middlewareNames))
	return nil
}
