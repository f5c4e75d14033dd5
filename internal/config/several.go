package config

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Several is one T, or a list of them.
type Several[T any] []T

// severalOf tells the type of what a Several has.
type severalOf interface{ severalOf() reflect.Type }

func (*Several[T]) severalOf() reflect.Type { return reflect.TypeFor[T]() }

func (l *Several[T]) decode(d *decoder, n *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		d.list(n, reflect.ValueOf((*[]T)(l)).Elem())
		return
	}
	one := make([]T, 1)
	d.setDefaults(reflect.ValueOf(&one[0]))
	d.decode(n, reflect.ValueOf(&one[0]).Elem())
	*l = one
}
