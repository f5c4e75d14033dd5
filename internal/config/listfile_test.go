package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
	"sluice/internal/model"
)

type fileOptions struct {
	File config.File                   `config:"file"`
	List config.ListFile[innerOptions] `config:"list"`
}

// decodeFiles decodes options that name the file f with a content.
func decodeFiles(t *testing.T, options, content string) (got *fileOptions, result config.Result) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	kinds := []config.Kind{{
		Name:    "files",
		Options: func() any { return &fileOptions{} },
		Validate: func(options any, _ model.Report) any {
			got, _ = options.(*fileOptions)
			return got
		},
	}}
	document := config.Document{Name: "x", Dir: dir, Data: []byte(listen + "global: [{files: " + options + "}]\n")}
	result = config.Resolve([]config.Document{document}, kinds, testEnvironment(map[string]string{"N": "5"}))
	if len(result.Files) != 1 || result.Files[0] != filepath.Join(dir, "f") {
		t.Errorf("the files of the documents are %q", result.Files)
	}
	return got, result
}

func TestFile(t *testing.T) {
	got, result := decodeFiles(t, "{file: ./f}", "${N}\n")
	if result.Problems != nil || string(got.File.Data) != "${N}\n" || got.File.Path != result.Files[0] {
		t.Errorf("%v, %+v", result.Problems, got)
	}
}

func TestListFile(t *testing.T) {
	for content, want := range map[string][]innerOptions{
		"# two\n- {level: 3}\n\n- {}\n":           {{3}, {7}},
		`[{"level": 3},` + "\n" + `{"level": 4}]`: {{3}, {4}},
		"- level: ${N}\n":                         {{5}},
		"[]":                                      {},
	} {
		got, result := decodeFiles(t, "{list: f}", content)
		if result.Problems != nil {
			t.Fatal(content, result.Problems)
		}
		if diff := cmp.Diff(want, got.List.Items); diff != "" {
			t.Errorf("%q: %s", content, diff)
		}
	}
	got, _ := decodeFiles(t, "{list: f}", "# one\n- {level: 3}\n\n- {level: 4}\n")
	if where := got.List.Where(1); where != "f:4" {
		t.Errorf("the second is at %s", where)
	}
}

// TestListFileTellsNoSecret: what a problem shows of the file has no secrets for those
// who may not read it.
func TestListFileTellsNoSecret(t *testing.T) {
	for _, content := range []string{"- {level: x, secret: let-me-in}\n", "- {level: 1, secret: let-me-in\n", "- secret: let-me-in\n  level: let-me-in\n",
		"- {level: x, key: let-me-in}\n", "- {level: 1, key: let-me-in\n", "- key: let-me-in\n  level: let-me-in\n",
		"[let-me-in]", "[\"let-me-in", "let-me-in", "- [let-me-in]\n", "- {level: let-me-in}\n- {secrt: let-me-in}\n"} {
		_, result := decodeFiles(t, "{list: f}", content)
		if len(result.Problems) == 0 {
			t.Errorf("%q has no problem", content)
		}
		for _, p := range result.Problems {
			if strings.Contains(p.Redacted+p.Source+p.Error(), "let-me-in") {
				t.Errorf("%q: %s\n%s", content, p.Error(), p.Redacted)
			}
		}
		result.Locate(result.Problems)
	}
}

// TestLongListFile reads a list of twenty thousand.
func TestLongListFile(t *testing.T) {
	got, result := decodeFiles(t, "{list: f}", strings.Repeat("- {level: 3} # ...........................................................................................\n", 20_000))
	if result.Problems != nil || len(got.List.Items) != 20_000 || got.List.Where(19_999) != "f:20000" {
		t.Errorf("%v, %d", result.Problems, len(got.List.Items))
	}
}

func TestListFileWithProblems(t *testing.T) {
	for content, want := range map[string]string{
		"":                  "x:2:25: list: the file is empty (write [] for an empty list)",
		"- {level: x}\n":    `f:1:11: level must be a whole number, not the text "x"`,
		"- {}\n- {levl: 1}": `f:2:4: unknown key "levl" (did you mean "level"?)`,
		"level: 1":          "f:1:1: f must be a list, not a mapping",
		"- {level: 1":       "f:1:11: this is not valid YAML: a mapping that was opened with { is not closed with }, or lacks a comma (a text with brackets or braces, ${…} too, needs quotes here)",
		"- level: ${M}":     "f:1:10: the environment variable M is not set (set it, or give a default: ${M:-…})",
	} {
		_, result := decodeFiles(t, "{list: f}", content)
		var got []string
		for _, p := range result.Problems {
			p.File = filepath.Base(p.File)
			got = append(got, p.Error())
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q", content, got)
		}
		if result.Gateway != nil {
			t.Errorf("%q is taken", content)
		}
	}
}
