package config_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"sluice/internal/config"
)

// FuzzResolve holds that no document panics, hangs, or is refused without a
// problem that can be printed.
func FuzzResolve(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, seed := range []string{"", "{", "[", "&a [*a]", "<<: {<<: {}}", "? {}\n: *x", "a: &a {<<: *a}", "routes: [{match: {path: \"${A}{${B}\"}, respond: {body: \"{{${A}}}\"}}]", "\ufeff{\"a\":\t\"\\ud83d\\ude00\"}", "listeners: &x {a: *x}", "include: [*.yaml]", "admin: {token: &t !!str 'a''b', x: *t}", "token: |\n  a\n\n  b\nb: c", "a:\n- token: b\n   c\n# d", "a: [\"http://u:p/q@h\", ws:\\/\\/x@y@z] # ://a:b@c", "keys: [a, {kye: b}]\nusers: [c]\nsecrt: d"} {
		f.Add([]byte(seed))
		f.Add([]byte(listen + seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		env := testEnvironment(map[string]string{"A": "{x}", "B": "}", "TOKEN": "t", "N": "1"})
		env.ReadFile = func(string) ([]byte, error) { return []byte("content\n"), nil }
		result := config.Resolve([]config.Document{{Name: "fuzz.yaml", Dir: "/nowhere", Data: data}}, testKinds(), env)
		refused := false
		for _, p := range result.Problems {
			refused = refused || !p.Warning
			if p.Message == "" || p.File != "fuzz.yaml" || p.Line < 0 || p.Line > 0 && p.Col < 1 || !utf8.ValidString(p.Message) {
				t.Errorf("%+v", p)
			}
			config.Print(io.Discard, p)
		}
		struck := config.Redact(config.Document{Data: data})
		if again := config.Redact(config.Document{Data: struck}); !bytes.Equal(again, struck) {
			t.Errorf("struck out once %q, twice %q", struck, again)
		}
		if refused == (result.Gateway != nil) {
			t.Errorf("gateway %v, problems %v", result.Gateway, result.Problems)
		}
	})
}
