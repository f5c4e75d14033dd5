package access_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/internal/middleware/access"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// principal is who has the claims, written in JSON, and the groups.
func principal(t testing.TB, claims string, groups ...string) *pipeline.Principal {
	t.Helper()
	p := &pipeline.Principal{Name: "ann", Tier: "gold", Groups: groups}
	if claims == "" {
		return p
	}
	decoder := json.NewDecoder(strings.NewReader(claims))
	decoder.UseNumber()
	if err := decoder.Decode(&p.Claims); err != nil {
		t.Fatal(err)
	}
	return p
}

// passes tells whether a middleware lets an exchange pass; if not, it must be 403.
func passes(t *testing.T, m pipeline.Middleware, x *pipeline.Exchange) bool {
	t.Helper()
	reached := false
	err := m(pipeline.HandlerFunc(func(*pipeline.Exchange) error { reached = true; return nil })).Serve(x)
	if reached != (err == nil) || err != nil && pipeline.AsError(err).Word != pipeline.Forbidden {
		t.Errorf("reached: %v, %v", reached, err)
	}
	return reached
}

func TestRoles(t *testing.T) {
	for _, test := range []struct {
		options, claims string
		groups          []string
		want            bool
	}{
		{"{roles: [admin]}", `{"roles": ["admin"]}`, nil, true},
		{"{roles: [admin]}", `{"roles": ["user", "admin"]}`, nil, true},
		{"{roles: [admin]}", `{"roles": ["user"]}`, nil, false},
		{"{roles: [admin]}", `{"roles": []}`, nil, false},
		{"{roles: [admin]}", `{}`, nil, false},
		{"{roles: [admin]}", ``, nil, false},
		{"{roles: [admin]}", `{"roles": null}`, nil, false},
		{"{roles: [admin]}", `{"roles": "admin"}`, nil, true},
		{"{roles: [admin]}", `{"roles": "user admin"}`, nil, true},
		{"{roles: [admin]}", `{"roles": "user,admin"}`, nil, true},
		{"{roles: [admin]}", `{"roles": "user, admin"}`, nil, true},
		{"{roles: [admin]}", `{"roles": "administrator"}`, nil, false},
		{"{roles: [admin]}", `{"roles": "Admin"}`, nil, false},
		{"{roles: [admin]}", `{"roles": ["Admin", "admin ", " admin", "admin,user", "user admin"]}`, nil, false}, // members are not split
		{"{roles: [site admin]}", `{"roles": ["site admin"]}`, nil, true},
		{"{roles: [site admin]}", `{"roles": "site admin"}`, nil, false},
		{"{roles: [admin]}", `{"roles": {"admin": false}}`, nil, false},
		{"{roles: [admin]}", `{"roles": {"admin": true}}`, nil, false},
		{"{roles: [admin]}", `{"roles": [["admin"], {"admin": 1}, 1, null, true]}`, nil, false},
		{"{roles: ['1']}", `{"roles": [1]}`, nil, false},
		{"{roles: ['true']}", `{"roles": true}`, nil, false},
		{"{roles: [admin]}", `{"role": ["admin"], "scope": "admin"}`, nil, false},
		{"{roles: [a, b]}", `{"roles": ["b"]}`, nil, true},
		{"{roles: [a, b], match: any}", `{"roles": ["b"]}`, nil, true},
		{"{roles: [a, b], match: all}", `{"roles": ["b"]}`, nil, false},
		{"{roles: [a, b], match: all}", `{"roles": ["b", "a", "c"]}`, nil, true},
		{"{roles: [a, b], match: all}", `{"roles": "b"}`, []string{"a"}, true}, // one of each
		{"{roles: [a, b], match: all}", ``, []string{"a", "b"}, true},
		{"{roles: [a, b], match: all}", ``, []string{"a"}, false},
		{"{roles: [a, b], match: all}", ``, nil, false},
		{"{roles: [admin]}", ``, []string{"users", "admin"}, true},
		{"{roles: [admin]}", ``, []string{"users,admin"}, false},
		{"{roles: ['orders:write'], claim: scope}", `{"scope": "orders:read orders:write"}`, nil, true},
		{"{roles: ['orders:write'], claim: scope}", `{"scope": "orders:write2"}`, nil, false},
		{"{roles: [admin], claim: realm_access.roles}", `{"realm_access": {"roles": ["admin"]}}`, nil, true},
		{"{roles: [admin], claim: realm_access.roles}", `{"realm_access.roles": ["admin"]}`, nil, true},
		{"{roles: [admin], claim: realm_access.roles}", `{"roles": ["admin"], "realm_access": "admin"}`, nil, false},
		{"{roles: [admin], claim: 'https://example.com/roles'}", `{"https://example.com/roles": ["admin"]}`, nil, true},
	} {
		m, role, problems := built(access.RBAC(), test.options)
		if problems != nil {
			t.Fatal(problems)
		}
		if role != model.Authorizing {
			t.Errorf("%s has the role %v", test.options, role)
		}
		x := asked(t, "GET /1")
		x.Authenticate(principal(t, test.claims, test.groups...))
		if passes(t, m, x) != test.want {
			t.Errorf("%s with %s and %v: %v", test.options, test.claims, test.groups, !test.want)
		}
		if passes(t, m, asked(t, "GET /1", "roles: admin", "X-Roles: admin")) {
			t.Errorf("%s lets nobody in particular pass", test.options)
		}
	}
}

func TestRBACProblems(t *testing.T) {
	expectProblems(t, access.RBAC(), map[string]string{
		"{roles: [admin]}":                       "",
		"{}":                                     "it.yaml:3:86: rbac says neither which roles may pass nor what it allows (write roles: […], or allow: with an expression)",
		"{roles: []}":                            "roles is an empty list, so that nobody could pass",
		"{roles: ['']}":                          "roles[0] is empty",
		"{roles: [a, a]}":                        `the role "a" is here twice`,
		"{roles: [a], allow: 'true'}":            "rbac has both roles and allow",
		"{roles: [a], match: some}":              `match must be any or all, not "some"`,
		"{roles: [a], claim: ''}":                "claim is empty",
		"{allow: 'true', match: all}":            "match is about roles, and there are none",
		"{allow: 'true', claim: scope}":          "claim is about roles, and there are none",
		"{allow: ''}":                            "allow has a mistake at 1:",
		"{allow: 'claimz.sub == \"a\"'}":         `it.yaml:3:94: allow has a mistake at 1:1 of its text: undeclared reference to 'claimz' (did you mean 'claims'?)`,
		"{allow: 'user == \"a\"'}":               `undeclared reference to 'user' (known here: request.method, request.path, request.host, request.headers, params, route, client_ip, claims, consumer, tier and groups)`,
		"{allow: 'request.foo == \"a\"'}":        "allow has a mistake at 1:8 of its text: undeclared reference to 'request.foo' (did you mean 'request.host'?)",
		"{allow: 'route == 1'}":                  "allow has a mistake at 1:7 of its text: found no matching overload for '_==_' applied to '(string, int)'",
		"{allow: 'route =='}":                    "allow has a mistake at 1:",
		"{allow: 'claims.admin'}":                "allow must be true or false, and this is of the type dyn (compare it, as in claims.admin == true)",
		"{allow: 'route'}":                       "allow must be true or false, and this is of the type string",
		"{allow: '\"a\" in consumer'}":           "allow has a mistake at 1:5 of its text: found no matching overload",
		"{allow: 'request.path.matches(\"(\")'}": "allow ",
		"{allow: 'request.path.matches(\"((a{100}){100}){100}\")'}":                                                   "allow ",
		`{allow: 'request.path.matches("(abc){400}")'}`:                                                               "allow ",
		"{allow: " + "'" + strings.Repeat("(", 300) + "'}":                                                            "allow is no expression: ",
		"{allow: " + "'" + strings.Repeat("true || ", 3000) + "true'}":                                                "allow is no expression: ",
		"{allow: 'claims.a.all(a, claims.b.all(b, claims.c.all(c, a == b && b == c)))'}":                              "allow may cost too much for one request: it goes through lists within lists, or long texts again and again (simplify it)",
		"{allow: '[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, claims.c.all(c, claims.d.all(d, c == d))))'}": "allow may cost too much",
	})
}

// TestMistakesAreShort: what is told of an expression has no position where it is wrong as a
// whole, and not all of a long one in it.
func TestMistakesAreShort(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300): "allow is no expression: expression recursion limit exceeded: 250",
		strings.Repeat("true && ", 3000) + "true":                    "allow is no expression: expression code point size exceeds limit",
		strings.Repeat("x", 16000):                                   "allow has a mistake at 1:1 of its text: undeclared reference to 'xxx",
	} {
		_, _, problems := built(access.RBAC(), "{allow: '"+text+"'}")
		if got := strings.Join(problems, "|"); !strings.Contains(got, want) || len(got) > 600 {
			t.Errorf("%s…: %d bytes, %.300s", text[:10], len(got), got)
		}
	}
}
