package config

import (
	"strings"
	"testing"

	"sluice/internal/model"
)

func TestRedact(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"plain":                 {"admin: {token: let-me-in}\n", "admin: {token: REDACTED}\n"},
		"in quotes":             {"admin:\n  token: \"let-me-in\" # let-me-in\n", "admin:\n  token: \"REDACTED\" # REDACTED\n"},
		"escaped":               {"admin: {token: \"let\\x2dme-in\"}\n", "REDACTED\n"},
		"an alias":              {"x: &t let-me-in\nadmin: {token: *t}\n", "x: &t REDACTED\nadmin: {token: *t}\n"},
		"a merge key":           {"x: &a {token: let-me-in}\nadmin:\n  <<: *a\n", "x: &a {token: REDACTED}\nadmin:\n  <<: *a\n"},
		"a variable":            {"admin: {token: \"${TOKEN}\"}\n", "admin: {token: \"${TOKEN}\"}\n"},
		"an empty default":      {"admin: {token: \"${TOKEN:-}\"}\n", "admin: {token: \"${TOKEN:-}\"}\n"},
		"a default is a secret": {"admin: {token: \"${TOKEN:-let-me-in}\"}\n", "admin: {token: \"REDACTED\"}\n"},
		"a file":                {"admin: {token: \"${file:secret}\"}\n", "admin: {token: \"${file:secret}\"}\n"},
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

func TestLocate(t *testing.T) {
	documents := []Document{{Name: "a", Data: []byte("one\r\ntwo\n")}, {Name: "b", Data: []byte("three")}}
	at := func(file string, line, col int) model.Problem {
		return model.Problem{Position: model.Position{File: file, Line: line, Col: col}}
	}
	got := Locate(documents, []model.Problem{at("b", 1, 1), at("a", 2, 1), at("a", 1, 2), at("a", 1, 1), at("a", 9, 1)})
	var lines []string
	for _, p := range got {
		lines = append(lines, p.String()+" "+p.Source)
	}
	if text := strings.Join(lines, "|"); text != "a:1:1 one|a:1:2 one|a:2:1 two|a:9:1 |b:1:1 three" {
		t.Errorf("got %s", text)
	}
}
