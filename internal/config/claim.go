package config

import (
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// RequiredClaim is a claim that must be there.
type RequiredClaim struct {
	Name   string
	Values []string // one of which it must have, or be; nil: whatever it is
}

// RequiredClaims are the names of claims, or a mapping of names to the value, or the
// values, that they may have.
type RequiredClaims []RequiredClaim

const requiredClaimsWant = "a list of names, or a mapping of names to values"

func (c *RequiredClaims) decode(d *decoder, n *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		var names []string
		d.list(n, reflect.ValueOf(&names).Elem())
		for _, name := range names {
			c.add(d, n, name, nil)
		}
	case yaml.MappingNode:
		for _, p := range d.pairs(n) {
			d.path = append(d.path, hop{p.key.Value, -1})
			var values Several[claimValue]
			if value, ok := d.follow(p.value); ok {
				values.decode(d, value)
				if len(values) == 0 {
					d.problem(p.key, d.name()+" has no value that would do", "write one, or a list of names alone")
				}
			}
			d.path = d.path[:len(d.path)-1]
			texts := make([]string, len(values))
			for i := range values {
				texts[i] = string(values[i])
			}
			c.add(d, p.key, p.key.Value, texts)
		}
	default:
		d.mismatch(n, requiredClaimsWant, "")
	}
}

func (c *RequiredClaims) add(d *decoder, n *yaml.Node, name string, values []string) {
	same := func(other RequiredClaim) bool { return other.Name == name }
	switch {
	case name == "":
		d.problem(n, d.name()+" has an empty name", "")
	case slices.ContainsFunc(*c, same):
		d.problem(n, fmt.Sprintf("the claim %s is here twice", name), "remove one of them")
	default:
		*c = append(*c, RequiredClaim{name, values})
	}
}

// claimValue is the text of a scalar of any type: true, 7, admin.
type claimValue string

func (*claimValue) want() string { return "a text, a number, true or false" }

func (v *claimValue) set(s scalar) *fault {
	if s.s == "" {
		return faulty("is empty", "write the value that the claim must have, or a list of names alone")
	}
	if s.s == "" {
		return faulty("is empty", "write a value, or a list of names alone")
	}
	*v = claimValue(s.s)
	return nil
}
