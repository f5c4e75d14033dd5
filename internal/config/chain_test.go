package config_test

import (
	"slices"
	"testing"

	"sluice/internal/config"
	"sluice/internal/model"
)

// TestChainOrder puts those first that go before all others, and leaves the order of
// the rest, and what other routes have, as they are.
func TestChainOrder(t *testing.T) {
	resolved := config.Resolve([]config.Document{{Name: "a.yaml", Data: []byte(`
listeners: {web: {address: "127.0.0.1:0"}}
global: [{limit: {max: 1KiB}}, {who: {}}]
routes:
  - {id: fronted, match: {path: /a}, middleware: [{edit: {}}, {front: {}}], respond: {status: 204}}
  - {id: skipping, match: {path: /b}, skip: [limit], middleware: [{front: {}}, {may: {}}], respond: {status: 204}}
  - {id: plain, match: {path: /c}, respond: {status: 204}}
`)}}, testKinds(), testEnvironment(nil))
	if resolved.Gateway == nil {
		t.Fatal(resolved.Problems)
	}
	want := map[string][]string{
		"fronted":  {"front", "limit", "who", "edit"},
		"skipping": {"front", "who", "may"},
		"plain":    {"limit", "who"},
	}
	for _, route := range resolved.Gateway.Routes {
		var kinds []string
		for _, m := range route.Chain {
			kinds = append(kinds, m.Kind)
		}
		skips := 0
		if route.ID == "skipping" {
			skips = 1
		}
		if len(route.Skipped) != skips || skips > 0 && route.Skipped[0].Kind != "limit" {
			t.Errorf("%s leaves out %v", route.ID, route.Skipped)
		}
		if !slices.Equal(kinds, want[route.ID]) {
			t.Errorf("the chain of %s is %v, want %v", route.ID, kinds, want[route.ID])
		}
	}
}

// TestChainThatTells warns of what goes by who the client is where nobody tells, but
// not where the same one stands on a route where somebody does.
func TestChainThatTells(t *testing.T) {
	for global, want := range map[string]int{"[{tell: {}}]": 1, "[{who: {}}, {tell: {}}]": 0} {
		resolved := config.Resolve([]config.Document{{Name: "a.yaml", Data: []byte(`
listeners: {web: {address: "127.0.0.1:0"}}
global: ` + global + `
routes:
  - {match: {path: /a}, respond: {status: 204}}
  - {match: {path: /b}, respond: {status: 204}` + map[int]string{0: ", skip: [who]"}[want] + `}
`)}}, testKinds(), testEnvironment(nil))
		if len(resolved.Problems) != want || resolved.Gateway == nil {
			t.Errorf("%s: %v", global, resolved.Problems)
		}
		for _, p := range resolved.Problems {
			if !p.Warning || p.Line != 3 || p.Message != "tell goes by who the client is, and nothing before it tells: all are nobody" {
				t.Errorf("%s: %v", global, p)
			}
		}
	}
}

// TestChainThatCertifies refuses one that goes by clients' certificates where no listener of
// the route asks for any, and does not judge where that cannot be told.
func TestChainThatCertifies(t *testing.T) {
	for route, refused := range map[string]bool{
		"":                             false,
		", listeners: [plain]":         true,
		", listeners: [none]":          true,
		", listeners: [plain, none]":   true,
		", listeners: [plain, secure]": false,
		", listeners: [secure]":        false,
		", listeners: [unknown]":       false,
	} {
		for broken, judged := range map[string]bool{"": true, "broken: {address: nowhere}": false, "broken: {at: nowhere}": false} {
			resolved := config.Resolve([]config.Document{{Name: "a.yaml", Dir: t.TempDir(), Data: []byte(`
listeners:
  plain: {address: "127.0.0.1:0"}
  none: {address: ":8443", tls: {acme: {domains: [a.test], storage: kept}, client_auth: {mode: none}}}
  secure: {address: ":8444", tls: {acme: {domains: [a.test], storage: kept}, client_auth: {mode: optional, ca: missing.pem}}}
  ` + broken + `
routes: [{id: a, match: {path: /a}` + route + `, middleware: [{proof: {}}, {may: {}}], respond: {status: 204}}]
`)}}, testKinds(), fromOutside())
			told := slices.ContainsFunc(resolved.Problems, func(p model.Problem) bool {
				return p.Message == `proof would refuse everybody: no listener of the route "a" asks clients for certificates`
			})
			if told != (refused && judged) {
				t.Errorf("%s %s: %v", route, broken, resolved.Problems)
			}
		}
	}
}
