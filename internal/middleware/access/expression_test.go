package access_test

import (
	"strings"
	"testing"

	"sluice/internal/middleware/access"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

const claimsOfAnn = `{"sub": "u1", "age": 42, "level": 1.5, "big": 12345678901234567890, "admin": true, "none": null, "one": 1.0,
	"roles": ["user", "editor"], "realm": {"roles": ["chief"], "n": 7}, "aud": ["api"], "amounts": [1, 2.5], "a.b": "dots"}`

func TestExpressions(t *testing.T) {
	for _, test := range []struct {
		allow string
		want  bool
		role  model.Role
	}{
		{`true`, true, model.Plain},
		{`false`, false, model.Plain},
		{`request.method == "PUT"`, true, model.Plain},
		{`request.method in ["GET", "HEAD"]`, false, model.Plain},
		{`request.path.startsWith("/1")`, true, model.Plain},
		{`request.path.matches("^/[0-9]+$")`, true, model.Plain},
		{`request.path.matches("^/[a-z]+$")`, false, model.Plain},
		{`request.host == "api.example.com"`, true, model.Plain},
		{`request.headers["x-a"] == "1,2"`, true, model.Plain},
		{`request.headers["X-A"] == "1,2"`, true, model.Plain},
		{`request.headers["x-b"] == "b"`, true, model.Plain},
		{`request.headers["x-none"] == ""`, false, model.Plain}, // missing: not allowed
		{`request.headers["x-none"] != "bad"`, false, model.Plain},
		{`"x-none" in request.headers`, false, model.Plain},
		{`!("x-none" in request.headers)`, true, model.Plain},
		{`"x-empty" in request.headers && request.headers["x-empty"] == ""`, true, model.Plain},
		{`has(request.headers.cookie)`, false, model.Plain},
		{`request.headers.exists(name, name == "x-a")`, true, model.Plain},
		{`request.headers.exists(name, name == "X-A")`, false, model.Plain},
		{`size(request.headers) == 3`, true, model.Plain},
		{`request.headers == request.headers`, true, model.Plain},
		{`request.headers == {"x-a": "1,2", "x-b": "b", "x-empty": ""}`, true, model.Plain},
		{`request.headers == {"x-a": "1,2"}`, false, model.Plain},
		{`type(request.headers) == map`, true, model.Plain},
		{`route == "r"`, true, model.Plain},
		{`params.id == "1"`, true, model.Plain},
		{`params.other == "1"`, false, model.Plain},
		{`client_ip == "10.1.2.3"`, true, model.Plain},
		{`cidr("10.0.0.0/8").containsIP(client_ip)`, true, model.Plain},
		{`cidr("10.2.0.0/16").containsIP(client_ip)`, false, model.Plain},
		{`claims.sub == "u1"`, true, model.Authorizing},
		{`claims["sub"] == "u1"`, true, model.Authorizing},
		{`claims.sub == "u2"`, false, model.Authorizing},
		{`claims.missing == "u1"`, false, model.Authorizing},
		{`claims.missing != "u1"`, false, model.Authorizing},
		{`!(claims.missing == "u1")`, false, model.Authorizing},
		{`has(claims.missing)`, false, model.Authorizing},
		{`!has(claims.missing)`, true, model.Authorizing},
		{`has(claims.sub) && claims.sub == "u1"`, true, model.Authorizing},
		{`claims.missing == "x" || claims.sub == "u1"`, true, model.Authorizing}, // one side is enough, as CEL has it
		{`claims.missing == "x" && claims.sub == "u1"`, false, model.Authorizing},
		{`claims.admin == true`, true, model.Authorizing},
		{`claims.admin`, false, -1}, // refused at load
		{`claims.none == null`, true, model.Authorizing},
		{`claims.age == 42`, true, model.Authorizing},
		{`claims.age >= 18`, true, model.Authorizing},
		{`claims.age > 41.5`, true, model.Authorizing},
		{`claims.age == "42"`, false, model.Authorizing},
		{`claims.level > 1`, true, model.Authorizing},
		{`claims.level < 1`, false, model.Authorizing},
		{`claims.one == 1`, true, model.Authorizing},
		{`claims.big > 1e18`, true, model.Authorizing},
		{`claims.amounts.all(a, a >= 1)`, true, model.Authorizing},
		{`"editor" in claims.roles`, true, model.Authorizing},
		{`"chief" in claims.roles`, false, model.Authorizing},
		{`"sub" in claims.roles`, false, model.Authorizing},
		{`claims.roles.exists(r, r.startsWith("edit"))`, true, model.Authorizing},
		{`claims.sub.exists(r, r == "u1")`, false, model.Authorizing}, // a text is no list
		{`"chief" in claims.realm.roles`, true, model.Authorizing},
		{`claims.realm.n == 7`, true, model.Authorizing},
		{`claims["a.b"] == "dots"`, true, model.Authorizing},
		{`claims.sub > 1`, false, model.Authorizing},
		{`consumer == "ann"`, true, model.Authorizing},
		{`consumer != ""`, true, model.Authorizing},
		{`tier == "gold"`, true, model.Authorizing},
		{`"staff" in groups`, true, model.Authorizing},
		{`"root" in groups`, false, model.Authorizing},
		{`params.id == claims.sub`, false, model.Authorizing},
		{`int(claims.sub) == 1`, false, model.Authorizing},
	} {
		m, role, problems := built(access.RBAC(), "{allow: '"+strings.ReplaceAll(test.allow, "'", "''")+"'}")
		if test.role == -1 {
			if problems == nil {
				t.Errorf("%s is accepted", test.allow)
			}
			continue
		}
		if problems != nil {
			t.Fatal(test.allow, problems)
		}
		if role != test.role {
			t.Errorf("%s has the role %v", test.allow, role)
		}
		x := asked(t, "PUT /1", "X-A: 1", "X-B: b", "x-a: 2", "X-Empty: ")
		x.Authenticate(principal(t, claimsOfAnn, "staff"))
		if passes(t, m, x) != test.want {
			t.Errorf("%s: %v", test.allow, !test.want)
		}
	}
}

// TestNobody has neither claims nor a name, which expressions see as empty.
func TestNobody(t *testing.T) {
	for allow, want := range map[string]bool{
		`claims.sub == ""`:            false,
		`claims.sub != "x"`:           false,
		`size(claims) == 0`:           true,
		`has(claims.sub)`:             false,
		`consumer == ""`:              true,
		`tier == "" && groups == []`:  true,
		`"admin" in groups`:           false,
		`claims.roles.all(r, false)`:  false,
		`groups.all(g, g == "admin")`: true, // all of none, as CEL has it
	} {
		m, _, problems := built(access.RBAC(), "{allow: '"+allow+"'}")
		if problems != nil {
			t.Fatal(allow, problems)
		}
		if passes(t, m, asked(t, "GET /1")) != want {
			t.Errorf("%s: %v", allow, !want)
		}
	}
}

// TestCostAtRunTime has texts and lists that are longer than was taken for likely.
func TestCostAtRunTime(t *testing.T) {
	m, _, problems := built(access.RBAC(), `{allow: 'claims.a.all(a, claims.b.all(b, a == b))'}`)
	if problems != nil {
		t.Fatal(problems)
	}
	for n, want := range map[int]bool{10: true, 2000: false} {
		list := "[" + strings.Repeat("1,", n) + "1]"
		x := asked(t, "GET /1")
		x.Authenticate(principal(t, `{"a": `+list+`, "b": `+list+`}`))
		if passes(t, m, x) != want {
			t.Errorf("two lists of %d: %v", n, !want)
		}
	}
}

// TestFieldsThatAreAlike are one to an expression, as they are to endpoints that make
// variables of them.
func TestFieldsThatAreAlike(t *testing.T) {
	for allow, want := range map[string]bool{
		`request.headers["X-Tenant"] == "a"`:                       false,
		`request.headers["X-Tenant"] == "a,b,c"`:                   true,
		`request.headers["x_tenant"] == "a,b,c"`:                   true,
		`request.headers["x-other-name"] == "d"`:                   true,
		`request.headers["x-tenants"] == "a"`:                      false,
		`size(request.headers) == 2`:                               true,
		`request.headers.exists(name, name == "x-other-name")`:     true,
		`request.headers.exists_one(name, name.contains("enant"))`: true,
	} {
		m, _, problems := built(access.RBAC(), "{allow: '"+allow+"'}")
		if problems != nil {
			t.Fatal(allow, problems)
		}
		if passes(t, m, asked(t, "GET /1", "X-Tenant: a", "X_Tenant: b", "x-tenant: c", "X_Other-Name: d")) != want {
			t.Errorf("%s: %v", allow, !want)
		}
	}
}

// TestErrorsKeepSecrets quotes nothing of an expression's failure where that may have
// a credential in it.
func TestErrorsKeepSecrets(t *testing.T) {
	for allow, want := range map[string]string{
		`int(request.headers.authorization) == 1`: "forbidden: the expression cannot be evaluated for this request",
		`claims.missing == 1`:                     "forbidden: the expression cannot be evaluated for this request: no such key: missing",
		`params[claims.sub] == "1"`:               "forbidden: the expression cannot be evaluated for this request",
		`int(claims.sub) == 1`:                    "forbidden: the expression cannot be evaluated for this request",
		`claims.sub + 1 == 2`:                     "forbidden: the expression cannot be evaluated for this request: no such overload",
		`claims.sub == "x"`:                       "forbidden: the expression does not allow it",
	} {
		m, _, problems := built(access.RBAC(), "{allow: '"+allow+"'}")
		if problems != nil {
			t.Fatal(allow, problems)
		}
		x := asked(t, "GET /1", "Authorization: Bearer s3cret")
		x.Authenticate(principal(t, claimsOfAnn))
		if err := m(answered()).Serve(x); err == nil || err.Error() != want {
			t.Errorf("%s: %v", allow, err)
		} else if detail := pipeline.AsError(err).Detail; detail != "The request is not allowed." {
			t.Errorf("%s: the client reads %q", allow, detail)
		}
	}
}

func BenchmarkRBAC(b *testing.B) {
	for name, options := range map[string]string{
		"roles":  `{roles: [editor]}`,
		"claims": `{allow: 'claims.sub == "u1" && request.method == "PUT"'}`,
		"list":   `{allow: '"editor" in claims.roles'}`,
		"header": `{allow: 'request.headers["x-a"] == "1"'}`,
	} {
		b.Run(name, func(b *testing.B) {
			m, _, problems := built(access.RBAC(), options)
			if problems != nil {
				b.Fatal(problems)
			}
			x := asked(b, "PUT /1", "X-A: 1", "Accept: */*", "User-Agent: benchmark")
			x.Authenticate(principal(b, claimsOfAnn))
			h := m(pipeline.HandlerFunc(func(*pipeline.Exchange) error { return nil }))
			b.ReportAllocs()
			for b.Loop() {
				if err := h.Serve(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
