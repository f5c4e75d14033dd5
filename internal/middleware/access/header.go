package access

import (
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"sluice/internal/message"
)

// headers are the fields of a request as a map of CEL: the values of a name that is
// there several times have commas between them, cookies semicolons. - and _ are one, as
// to endpoints that make variables of names: nothing gets past an expression by the
// other. A look-up, which is what nearly all expressions do, makes no map; but many of
// them would go through all fields again and again, and cost more than CEL counts.
type headers struct {
	fields message.Fields
	looked int               // how often, without the map
	values map[string]string // by name, once it is made
}

// mostLooks is how many look-ups cost less than to make the map.
const mostLooks = 16

// Find is the value of a name, whose case does not matter.
func (h *headers) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	value, there := h.find(string(name))
	if !there {
		return nil, false
	}
	return types.String(value), true
}

func (h *headers) find(name string) (value string, there bool) {
	if h.values == nil && h.looked < mostLooks {
		h.looked++
		return h.fields.Joined(",", func(other string) bool { return message.Alike(other, name) })
	}
	value, there = h.byName()[message.Likeness(name)]
	return value, there
}

// byName are the values by their names.
func (h *headers) byName() map[string]string {
	if h.values == nil {
		h.values = h.fields.Map(",", func(line *message.Field) string { return message.Likeness(line.Name) })
	}
	return h.values
}

// all is the map that the fields are.
func (h *headers) all() traits.Mapper {
	return types.NewStringStringMap(types.DefaultTypeAdapter, h.byName())
}

// Get is Find, or an error.
func (h *headers) Get(key ref.Val) ref.Val {
	value, found := h.Find(key)
	switch {
	case found:
		return value
	case value != nil:
		return value
	}
	return types.NewErr("no such key: %v", key)
}

// Contains tells whether Find finds it.
func (h *headers) Contains(key ref.Val) ref.Val {
	value, found := h.Find(key)
	if !found && value != nil {
		return value
	}
	return types.Bool(found)
}

// Size is the number of names.
func (h *headers) Size() ref.Val { return h.all().Size() }

// Iterator goes through the names, in lower case and with -.
func (h *headers) Iterator() traits.Iterator { return h.all().Iterator() }

// Equal compares it as a map.
func (h *headers) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*headers); ok {
		other = o.all()
	}
	return h.all().Equal(other)
}

// ConvertToNative is for the library.
func (h *headers) ConvertToNative(t reflect.Type) (any, error) { return h.all().ConvertToNative(t) }

// ConvertToType is for the library.
func (h *headers) ConvertToType(t ref.Type) ref.Val { return h.all().ConvertToType(t) }

// Type is a map.
func (*headers) Type() ref.Type { return types.MapType }

// Value is a map of Go.
func (h *headers) Value() any { return h.all().Value() }
