package access

import (
	"net/url"

	"cel.dev/cel-go/cel"

	"sluice/internal/canonical"
	"sluice/internal/pipeline"
)

// vars are the variables of an expression for one evaluation of it: an exchange, of which
// values are taken when the expression asks for them.
type vars struct {
	*pipeline.Exchange

	headers headers
}

func varsOf(x *pipeline.Exchange) *vars { return &vars{x, headers{fields: x.Request.Fields}} }

// Parent is none.
func (*vars) Parent() cel.Activation { return nil }

// ResolveName is the value of a variable. What nobody has told is empty.
func (v *vars) ResolveName(name string) (any, bool) {
	x := v.Exchange
	switch name {
	case varMethod:
		return x.Request.Method, true
	case varPath:
		return x.Request.Path, true
	case varHost:
		return canonical.Host(x.Request.Host), true
	case varHeaders:
		return &v.headers, true
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
