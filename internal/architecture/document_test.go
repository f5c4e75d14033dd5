package architecture

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDependencies holds docs/dependencies.md to the module files: each
// module that is asked for has its reason there, and no other has.
func TestDependencies(t *testing.T) {
	wanted := map[string]bool{}
	for _, file := range []string{"../../go.mod", "../../tools/go.mod", "../../tools/peers/go.mod", "../../bench/go.mod", "../../bench/peers/go.mod"} {
		for _, name := range asked(text(t, file)) {
			wanted[name] = true
		}
	}
	sameNames(t, "docs/dependencies.md", names("(?m)^\\| `([^`]+)` \\|", text(t, "../../docs/dependencies.md")), wanted)
}

// TestLayers holds docs/architecture.md to the table of packages. Those of tests have no
// row, and the kinds of middleware one together.
func TestLayers(t *testing.T) {
	document := text(t, "../../docs/architecture.md")
	wanted, told := map[string]bool{}, map[string]bool{}
	for path, p := range table {
		name := strings.TrimPrefix(path, "internal/")
		switch {
		case p.test:
			if !strings.Contains(document, "`"+name+"`") {
				t.Errorf("docs/architecture.md does not name %s", name)
			}
		case !strings.HasPrefix(name, "middleware/"):
			wanted[fmt.Sprintf("%d %s", p.layer, name)] = true
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d) \| ([^|]*) \|`).FindAllStringSubmatch(document, -1) {
		for name := range names("`([^`…]+)`", row[2]) {
			told[row[1]+" "+name] = true
		}
	}
	sameNames(t, "docs/architecture.md", told, wanted)
}

// TestErrors holds docs/errors.md to the words of package pipeline, with their
// statuses.
func TestErrors(t *testing.T) {
	source := text(t, "../pipeline/error.go")
	statuses := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\t(\w+): +\{(\w+), `).FindAllStringSubmatch(source, -1) {
		statuses[row[1]] = strings.Replace(row[2], "StatusClientClosed", "499", 1)
	}
	wanted := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\t(\w+) +Word = "(\w+)"$`).FindAllStringSubmatch(source, -1) {
		wanted[statuses[row[1]]+" | `"+row[2]+"`"] = true
	}
	sameNames(t, "docs/errors.md", names("(?m)^\\| (\\d{3} \\| `\\w+`) \\|", text(t, "../../docs/errors.md")), wanted)
}

// TestMetrics holds docs/operations.md to the names of metrics in the source.
func TestMetrics(t *testing.T) {
	wanted := map[string]bool{}
	err := filepath.WalkDir("..", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "testdata") {
			for metric := range names(`(?:\(|Name: )"(gateway_[a-z_]+)"`, text(t, name)) {
				wanted[metric] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sameNames(t, "docs/operations.md", names("`(gateway_[a-z_]+)[`{]", text(t, "../../docs/operations.md")), wanted)
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// names are what the first group of an expression takes of a text.
func names(expression, text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	return found
}

func sameNames(t *testing.T, page string, told, wanted map[string]bool) {
	t.Helper()
	if len(wanted) < 5 {
		t.Fatalf("found only %v in the source: it was not read", wanted)
	}
	for name := range wanted {
		if !told[name] {
			t.Errorf("%s does not tell of %s", page, name)
		}
	}
	for name := range told {
		if !wanted[name] {
			t.Errorf("%s tells of %s, which does not exist", page, name)
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

// asked lists the modules of others that a module file asks for itself: those required
// directly, and those of its tools.
func asked(text string) (names []string) {
	for _, tool := range toolLine.FindAllStringSubmatch(text, -1) {
		name, _, _ := strings.Cut(tool[1], "/cmd/")
		names = append(names, name)
	}
	for _, require := range requireLine.FindAllStringSubmatch(text, -1) {
		if require[2] == "" && require[1] != "sluice" { // what is measured is no dependency
			names = append(names, require[1])
		}
	}
	return names
}
