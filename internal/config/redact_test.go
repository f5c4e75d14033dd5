package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

func TestRedact(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"plain":               {"admin: {token: let-me-in}\n", "admin: {token: REDACTED}\n"},
		"in quotes":           {"admin:\n  token: \"let-me-in\" # let-me-in\n", "admin:\n  token: \"REDACTED\" # REDACTED\n"},
		"escaped":             {"admin: {token: \"let\\x2dme-in\"}\n", "admin: {token: \"REDACTED\"}\n"},
		"in single quotes":    {"admin: {token: 'let''me-in', name: 'x'}\n", "admin: {token: 'REDACTED', name: 'x'}\n"},
		"a block":             {"admin:\n  token: |\n    let-me-in\n\n    too\n  name: x\n", "admin:\n  token: REDACTED\n  name: x\n"},
		"a folded block":      {"admin:\n  token: >- # why\n    let-me-in\n", "admin:\n  token: REDACTED\n"},
		"over two lines":      {"admin:\n  token: let-me-in\n    now\n  name: x\n", "admin:\n  token: REDACTED\n  name: x\n"},
		"tagged":              {"admin: {token: !!str let-me-in}\n", "admin: {token: !!str REDACTED}\n"},
		"a short one":         {"admin: {token: a, name: a}\n", "admin: {token: REDACTED, name: a}\n"},
		"like its key":        {"admin: {password: password}\n", "admin: {password: REDACTED}\n"},
		"of sentinels":        {"{sentinel: {master: m, password: let-me-in}}\n", "{sentinel: {master: m, password: REDACTED}}\n"},
		"of a password":       {"users: [{name: ann, hash: $2y$05$let-me-in}]\n", "users: [{name: ann, hash: REDACTED}]\n"},
		"of clients' keys":    {"api_key: {keys: [{key: let-me-in, consumer: a}]}\n", "api_key: {keys: [{key: REDACTED, consumer: a}]}\n"},
		"other keys":          {"{keys: {key: 1}, tls: {key: a.pem}, rate_limit: {key: route}}\n", "{keys: {key: REDACTED}, tls: {key: a.pem}, rate_limit: {key: route}}\n"},
		"after other letters": {"{name: \"äöü\", token: let-me-in}\n", "{name: \"äöü\", token: REDACTED}\n"},
		"an edit": {
			"routes: [{middleware: [{headers: {request: {set: {authorization: Bearer let-me-in, X-A: b}, add: {Cookie: s=let-me-in}}}}]}]\n",
			"routes: [{middleware: [{headers: {request: {set: {authorization: REDACTED, X-A: b}, add: {Cookie: REDACTED}}}}]}]\n",
		},
		"conditions": {
			"match: {headers: {X-API-Key: let-me-in, X-Auth-Token: {regex: let-me-in}, X-My-Secret: {present: true}}, query: {apikey: let-me-in}}\n",
			"match: {headers: {X-API-Key: REDACTED, X-Auth-Token: {regex: REDACTED}, X-My-Secret: {present: true}}, query: {apikey: REDACTED}}\n",
		},
		"a list":      {"set-cookie: [a=let-me-in, b=let-me-in]\n", "set-cookie: [REDACTED, REDACTED]\n"},
		"names alone": {"remove: [Authorization]\nupstreams: {token-service: {endpoints: [http://a]}}\n", "remove: [Authorization]\nupstreams: {token-service: {endpoints: [http://a]}}\n"},
		"what comes from outside": {
			"{authorization: \"Bearer ${TOKEN}\", cookie: \"{header.X-Cookie}\", x-token: \"${file:a}${B:-}\"}\n",
			"{authorization: \"Bearer ${TOKEN}\", cookie: \"{header.X-Cookie}\", x-token: \"${file:a}${B:-}\"}\n",
		},
		"partly from outside":   {"{authorization: \"Bearer ${TOKEN}-let-me-in\", token: \"{let-me-in}\"}\n", "{authorization: \"REDACTED\", token: \"REDACTED\"}\n"},
		"a literal reference":   {"{token: \"$${let_me_in}\"}\n", "{token: \"REDACTED\"}\n"},
		"JSON with slashes":     {"{\"url\": \"a\\/b\", \"token\": \"let-me-in\"}\n", "REDACTED\n"},
		"a loop":                {"a: &a {token: let-me-in, b: *a, <<: *a}\n", "a: &a {token: REDACTED, b: *a, <<: *a}\n"},
		"an alias":              {"x: &t let-me-in\nadmin: {token: *t}\n", "x: &t REDACTED\nadmin: {token: *t}\n"},
		"a merge key":           {"x: &a {token: let-me-in}\nadmin:\n  <<: *a\n", "x: &a {token: REDACTED}\nadmin:\n  <<: *a\n"},
		"a variable":            {"admin: {token: \"${TOKEN}\"}\n", "admin: {token: \"${TOKEN}\"}\n"},
		"an empty default":      {"admin: {token: \"${TOKEN:-}\"}\n", "admin: {token: \"${TOKEN:-}\"}\n"},
		"a default is a secret": {"admin: {token: \"${TOKEN:-let-me-in}\"}\n", "admin: {token: \"REDACTED\"}\n"},
		"a file":                {"admin: {token: \"${file:secret}\"}\n", "admin: {token: \"${file:secret}\"}\n"},
		"user information":      {"{a: \"redis://u:let-me-in@h\", b: 'http:\\/\\/let-me-in@h', c: \"redis://${U}:${P}@h/a@b\"} # ws://:let-me-in@h\n", "{a: \"redis://REDACTED@h\", b: 'http:\\/\\/REDACTED@h', c: \"redis://${U}:${P}@h/a@b\"} # ws://REDACTED@h\n"},
		"no user information":   {"{a: [http://h/@b, \"http://h:80/a@b\", \"http://[::1]:80/@b\"]}\n", "{a: [http://h/@b, \"http://h:80/a@b\", \"http://[::1]:80/@b\"]}\n"},
		"none":                  {"routes: []\n", "routes: []\n"},
		"JSON with tabs":        {"{\n\t\"admin\": {\"token\": \"let-me-in\"}\n}\n", "{\n\t\"admin\": {\"token\": \"REDACTED\"}\n}\n"},
		"a byte order mark":     {"\ufeffadmin: {token: let-me-in}\n", "\ufeffadmin: {token: REDACTED}\n"},
		"nothing":               {"# admin\n", "# admin\n"},
		"no document":           {"admin: {token: let-me-in\n", "REDACTED\n"},
	} {
		got := string(Redact(Document{Data: []byte(test.text)}))
		if got != test.want || strings.Contains(got, "let-me-in") {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// problemsOf are those of a document, after some that were found elsewhere.
func problemsOf(text string, found ...model.Problem) []model.Problem {
	result := Resolve([]Document{{Name: "a", Data: []byte(text)}}, nil, Environment{})
	return result.Locate(found)
}

// What is told of a problem has no secret in it: neither its own, nor one that
// stands in the same line. Where a command shows the line, columns remain.
func TestProblemsTellNoSecret(t *testing.T) {
	const listen = "listeners: {web: {address: ':0'}}\n"
	for name, test := range map[string]struct{ text, want string }{
		"its own":            {"admin:\n  token: let me in\n", "token has characters that no bearer token may have|  token: REDACTED"},
		"of a wrong type":    {"admin: {token: 12345}\n", "token must be text, not the number REDACTED|admin: {token: REDACTED}"},
		"a short number":     {"admin: {token: 1}\n", "token must be text, not the number REDACTED|admin: {token: REDACTED}"},
		"a short text":       {"admin: {token: \"a{\", public: [a]}\n", "public[0] must be health, ready or metrics, not \"a\"|admin: {token: \"REDACTED\", public: [a]}"},
		"in the hint":        {"admin: {token: [let-me-in]}\n", "token must be text, not a list|admin: {token: [REDACTED]}"},
		"another's line":     {"admin: {token: let-me-in, routez: x}\n", "unknown key \"routez\"|admin: {token: REDACTED, routez: x}"},
		"a repeated one":     {"admin: {token: let-me-in}\nlet-me-in: 1\n", "unknown key \"REDACTED\"|REDACTED: 1"},
		"a long one":         {"admin: {token: \"let${" + strings.Repeat("let-me-in", 20) + "\"}\n", "\"REDACTED\" has a ${ that is not closed|admin: {token: \"REDACTED\"}"},
		"within a block":     {"admin:\n  token: |\n    let-me-in\n  x: 1\n", "unknown key \"x\"|  x: 1"},
		"no YAML":            {"admin: {token: let-me-in\n", "this is not valid YAML: a mapping that was opened with { is not closed with }, or lacks a comma|"},
		"no YAML, next line": {"token:\n  @let-me-in\n", "this is not valid YAML: no value can begin with this character|"},
		"no YAML, elsewhere": {"token: let-me-in\n\n\na: @b\n", "this is not valid YAML: no value can begin with this character|a: @b"},
		"not sure":           {"{\"a\": \"\\/\", \"admin\": {\"token\": \"let-me-in\"}, \"listeners\": {\"web\": {\"address\": \":0\"}}}\n", "unknown key \"a\"|"},
		"in a near name":     {"secrt: let-me-in\n", "unknown key \"secrt\"|secrt: REDACTED"},
		"in a near word":     {"client_secert: let-me-in\n", "unknown key \"client_secert\"|client_secert: REDACTED"},
		"a near key":         {"keys: [{kye: let-me-in, consumer: a}]\n", "unknown key \"keys\"|keys: [{kye: REDACTED, consumer: a}]"},
		"keys alone":         {"keys: [1, let-me-in]\n", "unknown key \"keys\"|keys: [REDACTED, REDACTED]"},
		"people alone":       {"users: [\"ann:let-me-in\"]\n", "unknown key \"users\"|users: [\"REDACTED\"]"},
		"in a URL":           {"upstreams: {a: {endpoints: [\"http://u:let-me-in@h\"]}}\n", "url must not have user information|upstreams: {a: {endpoints: [\"http://REDACTED@h\"]}}"},
		"in a bad URL":       {"upstreams: {a: {endpoints: [\"http://u:let-me-in/@h:x\"]}}\n", "url is no valid URL: invalid port \"REDACTED\" after host|upstreams: {a: {endpoints: [\"http://REDACTED@h:x\"]}}"},
		"in a URL, no YAML":  {"{a: [http://u:let-me-in@h\n", "this is not valid YAML: a list that was opened with [ is not closed with ], or lacks a comma|{a: [http://REDACTED@h"},
		"no YAML, near":      {"a: {secrt: let-me-in\n", "this is not valid YAML: a mapping that was opened with { is not closed with }, or lacks a comma|"},
		"no YAML, a list":    {"keys:\n- a\n- @let-me-in\n", "this is not valid YAML: no value can begin with this character|"},
		"without":            {"a: 1\n", "unknown key \"a\"|a: 1"},
	} {
		text := test.text
		if text[0] != '{' {
			text += listen
		}
		problems := problemsOf(text)
		if len(problems) == 0 {
			t.Errorf("%s: no problem", name)
			continue
		}
		p := problems[0]
		if p.Warning && len(problems) > 1 { // that it is written down
			p = problems[1]
		}
		if got := p.Message + "|" + p.Redacted; got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, test.want)
		}
		if source := strings.Split(text, "\n")[p.Line-1]; p.Source != "" && len(p.Source) != len(source) {
			t.Errorf("%s: a command would show %q", name, p.Source)
		}
		var printed strings.Builder
		for _, p := range problems {
			Print(&printed, p)
		}
		if shown := model.Text(problems) + printed.String(); strings.Contains(shown, "let-me-in") || strings.Contains(shown, "let me in") || strings.Contains(shown, "12345") {
			t.Errorf("%s: the API tells %s", name, shown)
		}
	}
}

func TestLocate(t *testing.T) {
	at := func(file string, line, col int) model.Problem {
		return model.Problem{Position: model.Position{File: file, Line: line, Col: col}}
	}
	result := Resolve([]Document{{Name: "a", Data: []byte("one: 1\r\nadmin: {token: x}\n")}, {Name: "b", Data: []byte("three: 3")}}, nil, Environment{})
	result.Problems = result.Problems[:0]
	var lines []string
	for _, p := range result.Locate([]model.Problem{at("b", 1, 1), at("a", 2, 1), at("a", 1, 2), at("a", 1, 1), at("a", 9, 1), at("c", 1, 1)}) {
		lines = append(lines, p.String()+" "+p.Source+" "+p.Redacted)
	}
	if text := strings.Join(lines, "|"); text != "a:1:1 one: 1 one: 1|c:1:1  |a:1:2 one: 1 one: 1|a:2:1 admin: {token: *} admin: {token: REDACTED}|a:9:1  |b:1:1 three: 3 three: 3" {
		t.Errorf("got %s", text)
	}
}

// Striking out what is secret takes no longer than reading a document does,
// however many secrets and problems there are.
func TestRedactMuch(t *testing.T) {
	var text strings.Builder
	text.WriteString("routes:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "- {id: r%d, match: {path: /p%d, headers: {X-Api-Key: let-me-in-%d}}, nope: 1, upstream: u}\n", i, i, i)
	}
	d := Document{Name: "a", Data: []byte(text.String())}
	began := time.Now()
	if got := string(Redact(d)); strings.Contains(got, "let-me-in") || strings.Count(got, redacted) != 10_000 {
		t.Error("not all is struck out")
	}
	for _, p := range problemsOf(text.String()) {
		if strings.Contains(p.Redacted, "let-me-in") {
			t.Fatal(p.Redacted)
		}
	}
	t.Log(time.Since(began))
}
