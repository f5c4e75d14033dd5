package architecture

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDependencies holds docs/dependencies.md to the two module files: each
// module that is asked for has its reason there, and no other has.
func TestDependencies(t *testing.T) {
	page, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{}
	for _, file := range []string{"../../go.mod", "../../tools/go.mod"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range asked(string(text)) {
			wanted[name] = true
		}
	}
	if len(wanted) < 5 {
		t.Fatalf("found only %v: the module files were not read", wanted)
	}
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		explained[row[1]] = true
	}
	for name := range wanted {
		if !explained[name] {
			t.Errorf("%s has no reason in docs/dependencies.md", name)
		}
	}
	for name := range explained {
		if !wanted[name] {
			t.Errorf("docs/dependencies.md explains %s, which no module file asks for", name)
		}
	}
}

func TestAsked(t *testing.T) {
	got := asked("module x\n\ngo 1.26\n\ntool example.com/lint/v2/cmd/lint\n\nrequire example.com/one v1.0.0\n\n" +
		"require (\n\texample.com/two v1.0.0\n\texample.com/three v1.0.0 // indirect\n\texample.com/lint/v2 v2.0.0 // indirect\n)\n")
	if want := "example.com/lint/v2 example.com/one example.com/two"; strings.Join(got, " ") != want {
		t.Errorf("asked for %v, want %s", got, want)
	}
}

var (
	toolLine    = regexp.MustCompile(`(?m)^(?:tool |\t)(\S+/cmd/\S+)$`)
	requireLine = regexp.MustCompile(`(?m)^(?:require |\t)(\S+) v\S+( // indirect)?$`)
)

// asked lists the modules that a module file asks for itself: those required
// directly, and those of its tools.
func asked(text string) (names []string) {
	for _, tool := range toolLine.FindAllStringSubmatch(text, -1) {
		name, _, _ := strings.Cut(tool[1], "/cmd/")
		names = append(names, name)
	}
	for _, require := range requireLine.FindAllStringSubmatch(text, -1) {
		if require[2] == "" {
			names = append(names, require[1])
		}
	}
	return names
}
