package login

import (
	"strings"
	"testing"

	"sluice/internal/config"
)

// TestTogether warns of two oidc that cannot both keep people logged in on a host.
func TestTogether(t *testing.T) {
	const (
		base   = "issuer: https://a.test, client_id: a, client_secret: 0123456789abcdef0123456789abcdef"
		other  = "issuer: https://b.test, client_id: a, client_secret: 0123456789abcdef0123456789abcdef"
		cookie = "oidc has the session.cookie sluice_session of that at it.yaml:"
		path   = "oidc has the redirect_path /oauth2/callback of that at it.yaml:"
	)
	for name, c := range map[string]struct{ one, hostsOne, two, hostsTwo, want string }{
		"another issuer":                     {base, "", other, "", cookie},
		"another client":                     {base, "", strings.Replace(base, "client_id: a", "client_id: b", 1), "", cookie},
		"another secret":                     {base, "", base + "0", "", cookie},
		"another store":                      {base, "", base + ", session: {store: main}", "", cookie},
		"one host":                           {base, "a.test", other, "b.test, a.test", cookie},
		"a wildcard and a host below":        {base, "'*.a.test'", other, "b.a.test", cookie},
		"a host below and a wildcard":        {base, "b.a.test", other, "'*.a.test'", cookie},
		"all hosts and one":                  {base, "", other, "b.test", cookie},
		"another cookie":                     {base, "", other + ", session: {cookie: b}", "", path},
		"another cookie and path":            {base, "", other + ", redirect_path: /cb, session: {cookie: b}", "", ""},
		"another path":                       {base, "", other + ", redirect_path: /cb", "", cookie},
		"other hosts":                        {base, "a.test", other, "b.test", ""},
		"a wildcard and its own name":        {base, "'*.a.test'", other, "a.test", ""},
		"a wildcard and a name that ends so": {base, "'*.a.test'", other, "ba.test", ""},
		"the same":                           {base, "", base, "", ""},
		"the same, to other ends":            {base, "", base + ", scopes: [email], redirect_path: /cb", "", ""},
		"a secret that is being changed": {
			base + ", session: {secret: [" + strings.Repeat("a", 32) + ", " + strings.Repeat("b", 32) + "]}", "",
			base + ", session: {secret: [" + strings.Repeat("b", 32) + ", " + strings.Repeat("a", 32) + "]}", "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := func(list string) string {
				if list == "" {
					return ""
				}
				return ", hosts: [" + list + "]"
			}
			kind := Kind()
			result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
stores: {main: {redis: {address: "127.0.0.1:1"}}}
routes:
  - {match: {path_prefix: /a` + hosts(c.hostsOne) + `}, respond: {status: 200}, middleware: [{oidc: {` + c.one + `}}]}
  - {match: {path_prefix: /b` + hosts(c.hostsTwo) + `}, respond: {status: 200}, middleware: [{oidc: {` + c.two + `}}]}
  - {match: {path_prefix: /c` + hosts(c.hostsTwo) + `}, respond: {status: 200}, middleware: [{oidc: {` + c.two + `}}]}
`)}}, []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate, Role: kind.Role}}, config.Environment{})
			if result.Gateway == nil {
				t.Fatal(result.Problems)
			}
			problems := kind.Together(result.Gateway)
			if c.want == "" {
				if len(problems) > 0 {
					t.Errorf("told %v", problems)
				}
				return
			}
			if len(problems) != 1 || !problems[0].Warning || problems[0].Line != 6 || !strings.HasPrefix(problems[0].Message, c.want+"5:") {
				t.Errorf("told %v", problems)
			}
		})
	}
}

// TestTogetherOnMoreHosts: what one oidc serves is what all of its routes do.
func TestTogetherOnMoreHosts(t *testing.T) {
	kind := Kind()
	result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
middleware:
  one: {oidc: {issuer: "https://a.test", client_id: a, client_secret: 0123456789abcdef0123456789abcdef}}
  two: {oidc: {issuer: "https://b.test", client_id: a, client_secret: 0123456789abcdef0123456789abcdef}}
routes:
  - {match: {hosts: [a.test]}, respond: {status: 200}, middleware: [one]}
  - {match: {hosts: [b.test]}, respond: {status: 200}, middleware: [two]}
  - {match: {hosts: [b.test], path: /x}, respond: {status: 200}, middleware: [one]}
`)}}, []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate, Role: kind.Role}}, config.Environment{})
	if result.Gateway == nil {
		t.Fatal(result.Problems)
	}
	if problems := kind.Together(result.Gateway); len(problems) != 1 || problems[0].Line != 8 {
		t.Errorf("told %v", problems)
	}
}
