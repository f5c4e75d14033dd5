package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
	"sluice/internal/model"
)

// TestSpellings holds that what a document says does not depend on how it is
// written.
func TestSpellings(t *testing.T) {
	want := resolve(t, "listeners:\n  web:\n    address: \":8080\"\n    limits: {headers: 10, body: 1KiB}\nroutes:\n  - id: a\n    match: {path: /x}\n    respond: {status: 200, body: \"é😀 {method}\"}\n")
	for name, text := range map[string]string{
		"CRLF":            "listeners:\r\n  web:\r\n    address: \":8080\"\r\n    limits: {headers: 10, body: 1KiB}\r\nroutes:\r\n  - id: a\r\n    match: {path: /x}\r\n    respond: {status: 200, body: \"é😀 {method}\"}\r\n",
		"BOM":             "\ufefflisteners: {web: {address: ':8080', limits: {headers: 10, body: 1024}}}\nroutes: [{id: a, match: {path: /x}, respond: {body: 'é😀 {method}'}}]",
		"marker":          "---\nlisteners: {web: {address: ':8080', limits: {headers: 0o12, body: 0x400}}}\nroutes: [{id: a, match: {path: /x}, respond: {body: 'é😀 {method}'}}]\n...\n",
		"JSON with tabs":  "{\n\t\"listeners\":\t{\"web\": {\"address\": \":8080\", \"limits\": {\"headers\": 10, \"body\": \"1KiB\"}}},\n\t\"routes\": [\n\t\t{\"id\": \"a\", \"match\": {\"path\": \"\\/x\"}, \"respond\": {\"body\": \"\\u00e9\\ud83d\\ude00 {method}\"}}\n\t]\n}\n",
		"JSON in one":     `{"listeners":{"web":{"address":":8080","limits":{"headers":10,"body":1024}}},"routes":[{"id":"a","match":{"path":"/x"},"respond":{"body":"é😀 {method}"}}]}`,
		"flow with #":     "{\n\tlisteners: {web: {address: ':8080', limits: {headers: 10, body: 1KiB}}}, # it's {a} comment\n\troutes: [{id: a, match: {path: /x}, respond: {body: 'é😀 {method}'}}]}\n",
		"leading zeros":   "listeners: {web: {address: ':8080', limits: {headers: 010, body: 01024}}}\nroutes: [{id: a, match: {path: /x}, respond: {body: 'é😀 {method}'}}]\n",
		"block scalar":    "listeners: {web: {address: ':8080', limits: {headers: 10, body: 1KiB}}}\nroutes:\n  - id: a\n    match: {path: /x}\n    respond:\n      body: >-\n        é😀\n        {method}\n",
		"merge":           "listeners: {web: &w {address: ':8080', limits: &l {headers: 99, body: 1KiB}}}\nroutes: [{id: a, match: {path: /x}, respond: {body: 'é😀 {method}'}}]\n",
		"variables":       "listeners: {web: {address: '${ADDRESS}', limits: {headers: \"${TEN}\", body: '${SIZE}'}}}\nroutes: [{id: a, match: {path: '/${X}'}, respond: {status: \"${STATUS:-200}\", body: 'é${SMILE} {method}'}}]\n",
		"explicit tags":   "listeners: {web: {address: !!str ':8080', limits: {headers: !!int \"10\", body: 1KiB}}}\nroutes: [{id: !!str a, match: {path: /x}, respond: {body: 'é😀 {method}'}}]\n",
		"anchors":         "listeners: {web: {address: &a ':8080', limits: {headers: &ten 10, body: 1KiB}}}\nroutes: [{id: a, match: {path: /x}, respond: {body: 'é😀 {method}', status: 200}}]\ndrain_timeout: 20s\n",
		"null top levels": "listeners: {web: {address: ':8080', limits: {headers: 10, body: 1KiB}}}\nroutes: [{id: a, match: {path: /x}, respond: {body: 'é😀 {method}'}}]\nupstreams:\nmiddleware: ~\nglobal: null\nadmin:\naccess_log:\n",
	} {
		got := resolve(t, text, "ADDRESS=:8080", "TEN=10", "SIZE=1KiB", "X=x", "SMILE=😀")
		if name == "merge" {
			got.Listeners[0].Limits.Headers = 10
		}
		for _, g := range []*model.Gateway{want, got} {
			g.Routes[0].Position, g.Listeners[0].Position, g.Admin.Position = model.Position{}, model.Position{}, model.Position{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestMergeKeys(t *testing.T) {
	g := resolve(t, `
listeners:
  a: &a {address: ":1", limits: &limits {headers: 1, body: 1}, half_close: serve}
  b:
    <<: *a
    address: ":2"
    limits: {<<: *limits, body: 2}
  c:
    <<: [{address: ":3"}, *a]
  d: &d {<<: *a, address: ":4"}
  e: {address: ":5", <<: *d}
drain_timeout: &long 5m
routes:
  - &base {id: one, match: &m {path: /x}, respond: {}, timeout: *long}
  - {<<: *base, id: two, match: {<<: *m, methods: [GET]}}
`)
	var got []string
	for _, l := range g.Listeners {
		got = append(got, fmt.Sprint(l.Name, l.Address, l.Limits.Headers, l.Limits.Body, l.HalfClose))
	}
	if diff := cmp.Diff([]string{"a:11 1 true", "b:21 2 true", "c:31 1 true", "d:41 1 true", "e:51 1 true"}, got); diff != "" {
		t.Error(diff)
	}
	if two := g.Routes[1]; two.ID != "two" || two.Match.Path.Text != "/x" || len(two.Match.Methods) != 1 || two.Timeouts.Response != 5*time.Minute {
		t.Errorf("%+v", two)
	}
}

// TestBombs holds that no document makes the gateway work without end.
func TestBombs(t *testing.T) {
	var lists, merges strings.Builder
	lists.WriteString("x0: &x0 [a, a, a, a, a, a, a, a, a]\n")
	merges.WriteString("x0: &x0 {a: 1}\n")
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&lists, "x%d: &x%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 9), ", "))
		fmt.Fprintf(&merges, "x%d: &x%d {b%d: 1, <<: [%s]}\n", i, i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 9), ", "))
	}
	hosts := "[" + strings.TrimSuffix(strings.Repeat("a.example, ", 5000), ", ") + "]"
	many := listen + "routes:\n  - &r {match: {hosts: &h " + hosts + "}, respond: {}}\n" + strings.Repeat("  - {match: {hosts: *h}, respond: {}}\n", 20_000)
	for name, text := range map[string]string{
		"lists of lists":   listen + lists.String() + "routes: *x39\n",
		"merges of merges": listen + merges.String() + "admin: {<<: *x39}\n",
		"many aliases":     many,
		"deep flow":        listen + "routes: " + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "\n",
		"deep mappings":    listen + "routes: " + strings.Repeat("{a: ", 20_000) + strings.Repeat("}", 20_000) + "\n",
		"deep defaults":    listen + "engine: \"" + strings.Repeat("${A:-", 20_000) + strings.Repeat("}", 20_000) + "\"\n",
		"open defaults":    listen + "engine: \"" + strings.Repeat("$${", 20_000) + "\"\n",
		"long keys":        listen + strings.Repeat("k", 100_000) + ": 1\n",
		"alias of itself":  listen + "routes: &r [*r]\n",
	} {
		start := time.Now()
		result := resolveAny(t, text)
		if result.Gateway != nil || len(result.Problems) == 0 {
			t.Errorf("%s is accepted", name)
		}
		if took := time.Since(start); took > time.Minute { // a second here; without bounds, an hour or more
			t.Errorf("%s took %v", name, took)
		}
	}
}

func TestSubstitution(t *testing.T) {
	for written, want := range map[string]string{
		"${A}":                   "alpha",
		"x-${A}-${B}-y":          "x-alpha-beta-y",
		"${A:-x}":                "alpha",
		"${NONE:-x}":             "x",
		"${EMPTY:-x}":            "x",
		"${EMPTY}":               "",
		"${NONE:-}":              "",
		"${NONE:-${B}}":          "beta",
		"${NONE:-${ALSO:-deep}}": "deep",
		"$${A}":                  "${A}",
		"$$${A}":                 "$${A}",
		"$A $ {A}":               "$A $ {A}",
		"${file:f}":              "line one\nline two",
		"${file:${A}}":           "by name",
		"${DOLLAR}":              "${A}", // what comes from outside is not expanded again
	} {
		result := resolveAny(t, fmt.Sprintf("%saccess_log: {output: %q}\n", listen, "/p/"+written),
			"A=alpha", "B=beta", "EMPTY=", "DOLLAR=${A}", "file:/etc/sluice/f=line one\nline two\n", "file:/etc/sluice/alpha=by name")
		if result.Gateway == nil {
			t.Errorf("%s: %v", written, result.Problems)
			continue
		}
		wanted := strings.TrimSuffix("/p/"+want, "/")
		if got := result.Gateway.AccessLog.Output; got != wanted {
			t.Errorf("%s: got %q, want %q", written, got, wanted)
		}
	}
}

// TestForeignBraces holds that braces which come from outside the document are
// text, and those of the document are not.
func TestForeignBraces(t *testing.T) {
	for written, want := range map[string]string{
		"{id}":              "{id}",
		"${BRACES}":         "{{id}}",
		"{id}${BRACES}{id}": "{id}{{id}}{id}",
		"{header.${NAME}}":  "{header.X-A}",
		"$${id}":            "${{id}}",
		"${NONE:-{id}}":     "{id}",
		"{{${A}}}":          "{{alpha}}",
		"${OPEN}id}}":       "{{id}}",
		"{{id${CLOSE}":      "{{id}}",
		"${file:f}{id}":     "{{x}} {id}",
	} {
		result := resolveAny(t, fmt.Sprintf("%sroutes: [{match: {path: \"/{id}\"}, respond: {body: %q}}]\n", listen, written),
			"BRACES={id}", "NAME=X-A", "A=alpha", "OPEN={", "CLOSE=}", "file:/etc/sluice/f={x} \n")
		if result.Gateway == nil {
			t.Errorf("%s: %v", written, result.Problems)
			continue
		}
		if got := result.Gateway.Routes[0].Respond.Body.String(); got != want {
			t.Errorf("%s: got %s, want %s", written, got, want)
		}
	}
}

func TestTypesFromVariables(t *testing.T) {
	g := resolve(t, `
listeners: {web: {address: "${HOST}:${PORT}", paths: {merge_slashes: "${NO}"}, trusted_proxies: ["${NET}"], limits: {headers: "${PORT}"}}}
admin: {token: "${DIGITS}", name: '${YES}'}
access_log: {sample: "${SHARE}%"}
drain_timeout: ${SECONDS}s
response_time_header: ${YES}
`, "HOST=localhost", "PORT=81", "NO=false", "YES=true", "NET=10.0.0.0/8", "DIGITS=12345", "SHARE=50", "SECONDS=3")
	l := g.Listeners[0]
	if l.Address != "localhost:81" || l.Paths.MergeSlashes || l.Limits.Headers != 81 || len(l.TrustedProxies) != 1 || g.Admin.Token != "12345" || g.Admin.Name != "true" ||
		g.AccessLog.Sample != 0.5 || g.DrainTimeout != 3*time.Second || !g.ResponseTimeHeader {
		t.Errorf("%+v, %+v", l, g)
	}
}

func TestTextsThatOtherYAMLReadsOtherwise(t *testing.T) {
	g := resolve(t, listen+"routes:\n  - {id: yes, match: {path: /x, headers: {A: no, B: on, C: 1_000, D: 0b11, E: 12:30:45, F: 2001-01-01, G: 0x, H: .inf.}}, respond: {}}\n")
	if g.Routes[0].ID != "yes" {
		t.Error(g.Routes[0].ID)
	}
	var got []string
	for _, c := range g.Routes[0].Match.Headers {
		got = append(got, *c.Value)
	}
	if diff := cmp.Diff([]string{"no", "on", "1_000", "0b11", "12:30:45", "2001-01-01", "0x", ".inf."}, got); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironmentOfTheSystem(t *testing.T) {
	t.Setenv("SLUICE_TEST_ENGINE", "goroutine")
	documents := []config.Document{{Name: "x", Data: []byte(listen + "engine: ${SLUICE_TEST_ENGINE}\n")}}
	if result := config.Resolve(documents, nil, config.Environment{}); result.Gateway == nil || result.Gateway.Engine != "goroutine" {
		t.Error(result)
	}
}
