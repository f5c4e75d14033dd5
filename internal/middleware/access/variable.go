package access

import (
	"net/url"
	"reflect"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// vars are the variables of an expression: an exchange, of which values are taken
// when the expression asks for them.
type vars pipeline.Exchange

// Parent is none.
func (*vars) Parent() cel.Activation { return nil }

// ResolveName is the value of a variable. What nobody has told is empty.
func (v *vars) ResolveName(name string) (any, bool) {
	x := (*pipeline.Exchange)(v)
	switch name {
	case varMethod:
		return x.Request.Method, true
	case varPath:
		return x.Request.Path, true
	case varHost:
		return canonical.Host(x.Request.Host), true
	case varHeaders:
		return headers{x.Request.Fields}, true
	case varParams:
		return params(x), true
	case varRoute:
		return x.Route.ID, true
	case varClientIP:
		return x.ClientText(), true
	}
	who := x.Principal
	if who == nil {
		who = &pipeline.Principal{}
	}
	switch name {
	case varClaims:
		return who.Claims, true
	case varConsumer:
		return x.Consumer, true
	case varTier:
		return who.Tier, true
	case varGroups:
		return who.Groups, true
	}
	return nil, false
}

// params are the parameters of the path as people read them.
func params(x *pipeline.Exchange) map[string]string {
	all := make(map[string]string, len(x.Params))
	for _, p := range x.Params {
		value, err := url.PathUnescape(p.Value)
		if err != nil {
			value = p.Value
		}
		all[p.Name] = value
	}
	return all
}

// headers are the fields of a request as a map of CEL: the values of a name that is
// there several times have commas between them, cookies semicolons. - and _ are one, as
// to endpoints that make variables of names: nothing gets past an expression by the
// other. A look-up, which is what nearly all expressions do, makes no map.
type headers struct{ fields message.Fields }

// Find is the value of a name, whose case does not matter.
func (h headers) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	value, there := h.fields.Joined(",", func(other string) bool { return message.Alike(other, string(name)) })
	if !there {
		return nil, false
	}
	return types.String(value), true
}

// all is the map that the fields are.
func (h headers) all() traits.Mapper {
	return types.NewStringStringMap(types.DefaultTypeAdapter, h.fields.Map(",", func(line *message.Field) string {
		return strings.ReplaceAll(strings.ToLower(line.Name), "_", "-")
	}))
}

// Get is Find, or an error.
func (h headers) Get(key ref.Val) ref.Val {
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
func (h headers) Contains(key ref.Val) ref.Val {
	value, found := h.Find(key)
	if !found && value != nil {
		return value
	}
	return types.Bool(found)
}

// Size is the number of names.
func (h headers) Size() ref.Val { return h.all().Size() }

// Iterator goes through the names, in lower case and with -.
func (h headers) Iterator() traits.Iterator { return h.all().Iterator() }

// Equal compares it as a map.
func (h headers) Equal(other ref.Val) ref.Val {
	if o, ok := other.(headers); ok {
		other = o.all()
	}
	return h.all().Equal(other)
}

// ConvertToNative is for the library.
func (h headers) ConvertToNative(t reflect.Type) (any, error) { return h.all().ConvertToNative(t) }

// ConvertToType is for the library.
func (h headers) ConvertToType(t ref.Type) ref.Val { return h.all().ConvertToType(t) }

// Type is a map.
func (headers) Type() ref.Type { return types.MapType }

// Value is a map of Go.
func (h headers) Value() any { return h.all().Value() }
