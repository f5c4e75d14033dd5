package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// RBACOptions are the options of rbac.
type RBACOptions struct {
	Roles []string `config:"roles" doc:"roles of which the client needs one: those of a claim, and the groups of the consumer"`
	Match *string  `config:"match" enum:"any|all" doc:"whether it needs any or all of them" default:"any"`
	Claim *string  `config:"claim" doc:"the claim that has the roles, as a name or a path such as realm_access.roles: a list, or a text with spaces or commas between them" default:"roles"`
	Allow *string  `config:"allow" doc:"instead of roles: an expression of CEL that is true for whoever may pass"`
}

// rbac is the settings of rbac: roles or an expression.
type rbac struct {
	Roles []string
	All   bool
	Claim string
	Allow string

	expression *expression // of Allow
}

// RBAC is the kind rbac: who lacks the roles, or is not allowed by the expression, is
// 403 forbidden.
func RBAC() pipeline.Kind {
	cel := newLanguage()
	return pipeline.RoleOf(pipeline.NewKind("rbac", func() *RBACOptions { return &RBACOptions{} },
		func(o *RBACOptions, report model.Report) rbac { return validateRBAC(o, cel, report) },
		func(_ *pipeline.Site, r rbac) pipeline.Middleware { return r.middleware }), rbac.role)
}

// role is Authorizing unless an expression does not ask who the client is.
func (r rbac) role() model.Role {
	if r.expression != nil && !r.expression.asksWho {
		return model.Plain
	}
	return model.Authorizing
}

func validateRBAC(o *RBACOptions, cel language, report model.Report) rbac {
	r := rbac{Roles: o.Roles, Claim: "roles"}
	switch {
	case o.Allow == nil && o.Roles == nil:
		report("", "rbac says neither which roles may pass nor what it allows", "write roles: […], or allow: with an expression")
	case o.Allow != nil && o.Roles != nil:
		report("allow", "rbac has both roles and allow", "ask for the role in the expression: type(claims.roles) == list && \"admin\" in claims.roles")
	case o.Allow != nil:
		r.compile(*o.Allow, cel, report)
	case len(o.Roles) == 0:
		report("roles", "roles is an empty list, so that nobody could pass", "name at least one")
	}
	for i, role := range o.Roles {
		switch path := fmt.Sprintf("roles[%d]", i); {
		case role == "":
			report(path, path+" is empty", "")
		case slices.Contains(o.Roles[:i], role):
			report(path, fmt.Sprintf("the role %q is here twice", role), "")
		}
	}
	if o.Match != nil {
		r.All = *o.Match == "all"
		onlyWithRoles(o, "match", report)
	}
	if o.Claim != nil {
		if r.Claim = *o.Claim; r.Claim == "" {
			report("claim", "claim is empty", "write the name of one")
		}
		onlyWithRoles(o, "claim", report)
	}
	return r
}

func onlyWithRoles(o *RBACOptions, key string, report model.Report) {
	if o.Allow != nil && o.Roles == nil {
		report(key, key+" is about roles, and there are none", "remove it")
	}
}

func (r *rbac) compile(text string, cel language, report model.Report) {
	expression, wrong := cel.compile(text)
	if wrong != nil {
		report("allow", "allow "+wrong.text, wrong.hint)
		return
	}
	r.Allow, r.expression = text, expression
}

var errRoles = errors.New("the client lacks the roles")

func (r rbac) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		if r.expression != nil {
			if err := r.expression.allows(varsOf(x)); err != nil {
				return pipeline.NewError(pipeline.Forbidden, err)
			}
		} else if !r.holds(x.Principal) {
			return pipeline.NewError(pipeline.Forbidden, errRoles)
		}
		return next.Serve(x)
	})
}

// holds tells whether somebody has the roles; nobody has none.
func (r *rbac) holds(who *pipeline.Principal) bool {
	if who == nil || len(r.Roles) == 0 {
		return false
	}
	claim, _ := who.Claim(r.Claim)
	for _, role := range r.Roles {
		if has := slices.Contains(who.Groups, role) || names(claim, role); has != r.All {
			return has
		}
	}
	return r.All
}

// names tells whether a claim names a role: as a member of a list, or in a text, as a
// scope (RFC 6749 3.3). What else a claim may be names none.
func names(claim any, role string) bool {
	switch claim := claim.(type) {
	case string:
		for word := range strings.FieldsFuncSeq(claim, func(c rune) bool { return c == ' ' || c == ',' }) {
			if word == role {
				return true
			}
		}
	case []any:
		return slices.Contains(claim, any(role))
	case []string:
		return slices.Contains(claim, role)
	}
	return false
}
