// Package architecture holds the source to the rules that neither the compiler
// nor a linter knows: which package may import which, who knows net/http, and
// the habits that keep state where it can be seen. It has only tests. It reads
// source text and types as far as they show in it; it builds and runs nothing.
//
// Each rule is shown to fire on testdata/module, whose lines say which rule
// they break.
package architecture

import (
	"go/token"
	"slices"
	"strings"
	"testing"
)

// module is the path that import paths of this project begin with.
const module = "sluice"

// violation is a place that breaks a rule.
type violation struct {
	rule    string
	at      token.Position
	message string
}

// rule finds violations in one package.
type rule struct {
	name string
	find func(p *pkg, report func(at token.Pos, message string))
}

// rules are what the source is held to, with files of at most lines lines.
func rules(lines int) []rule {
	return []rule{
		{"package", packageIsKnown},
		{"name", nameSaysSomething},
		{"layer", importsPointDown},
		{"net-http", netHTTPStaysAtTheBorder},
		{"init", noInit},
		{"registry", noDefaultRegistry},
		{"state", noPackageState},
		{"panic", panicsNameBugs},
		{"sleep", nobodySleeps},
		{"field", fieldsAreKnown},
		{"length", func(p *pkg, report func(token.Pos, string)) { filesAreShort(p, lines, report) }},
	}
}

func check(t *testing.T, packages []*pkg, rules []rule) (found []violation) {
	t.Helper()
	for _, p := range packages {
		for _, r := range rules {
			r.find(p, func(at token.Pos, message string) {
				found = append(found, violation{rule: r.name, at: p.fset.Position(at), message: message})
			})
		}
	}
	return found
}

func TestSource(t *testing.T) {
	packages := load(t, "../..")
	if len(packages) < 5 {
		t.Fatalf("found only %d packages: the tree was not read", len(packages))
	}
	for _, v := range check(t, packages, rules(800)) {
		t.Errorf("%s: %s: %s", v.at, v.rule, v.message)
	}
}

// TestFixture shows that every rule finds what it is for, and nothing else: a
// line of the fixture that breaks rules names them after "// want".
func TestFixture(t *testing.T) {
	type place struct {
		file string
		line int
		rule string
	}
	all := rules(60)
	packages := load(t, "testdata/module")
	found := map[place]int{}
	for _, v := range check(t, packages, all) {
		found[place{v.at.Filename, v.at.Line, v.rule}]++
	}

	wanted := map[place]bool{}
	fired := map[string]bool{}
	for _, p := range packages {
		for _, f := range p.files {
			for _, group := range f.syntax.Comments {
				for _, comment := range group.List {
					names, ok := strings.CutPrefix(comment.Text, "// want ")
					if !ok {
						continue
					}
					at := p.fset.Position(comment.Pos())
					for _, name := range strings.Fields(names) {
						wanted[place{at.Filename, at.Line, name}] = true
						fired[name] = true
					}
				}
			}
		}
	}

	for at := range wanted {
		if found[at] == 0 {
			t.Errorf("%s:%d: rule %s did not fire", at.file, at.line, at.rule)
		}
	}
	for at := range found {
		if !wanted[at] {
			t.Errorf("%s:%d: rule %s fired where nothing is wrong", at.file, at.line, at.rule)
		}
	}
	for _, r := range all {
		if !fired[r.name] {
			t.Errorf("the fixture breaks rule %s nowhere", r.name)
		}
	}
	for name := range fired {
		if !slices.ContainsFunc(all, func(r rule) bool { return r.name == name }) {
			t.Errorf("the fixture wants rule %s, which does not exist", name)
		}
	}
}
