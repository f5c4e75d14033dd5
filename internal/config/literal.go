package config

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Secret is a text that nobody else is to know. One that stands in a document, where all
// who may read that can read it, is warned of; its key is to be one that Redact knows.
type Secret string

func (v *Secret) decode(d *decoder, n *yaml.Node) {
	faults := d.out.faults
	d.basic(n, reflect.ValueOf(v).Elem())
	if d.out.faults == faults && !d.listed && !isPublic(n.Value) {
		d.out.warn(d.here(n), d.name()+" is written down: whoever may read the document can use it", "write '${file:PATH}' or '${NAME}'")
	}
}
