package config_test

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
	"sluice/internal/model"
)

var update = flag.Bool("update", false, "write the golden files")

// limitOptions and editOptions are options as kinds have them.
type limitOptions struct {
	Max  config.Size  `config:"max,required" doc:"how many bytes"`
	Rate *config.Rate `config:"rate" doc:"how often"`
	Also *config.Rate `config:"also"`
	More *config.Rate `config:"more"`
	Soon config.Later `config:"soon"`
}

type editOptions struct {
	Mode    string          `config:"mode" enum:"enforce|shadow" doc:"whether it holds"`
	Deny    []config.Prefix `config:"deny" doc:"who may not"`
	Request struct {
		Set config.Map[config.Template] `config:"set" doc:"what is set"`
	} `config:"request" doc:"edits of the request"`
}

func testKinds() []config.Kind {
	return []config.Kind{
		{
			Name:     "limit",
			Options:  func() any { return &limitOptions{} },
			Validate: func(options any, _ model.Report) any { return int64(options.(*limitOptions).Max) },
		},
		{
			Name:    "edit",
			Options: func() any { return &editOptions{Mode: "enforce"} },
			Validate: func(options any, report model.Report) any {
				o := options.(*editOptions)
				if len(o.Deny) > 1 {
					report("deny[1]", "only one is allowed", "remove it")
				}
				for _, entry := range o.Request.Set {
					if strings.Contains(entry.Key, ".") {
						report("request.set."+entry.Key, "a dot in "+entry.Key, "")
					}
				}
				return o
			},
		},
		roleKind("front", model.Outermost),
		roleKind("who", model.Authenticating),
		roleKind("proof", model.Authenticating|model.Certifying),
		roleKind("decide", model.Refusing),
		roleKind("may", model.Authorizing),
		roleKind("tell", model.Telling),
		roleKind("answer", model.Answering),
	}
}

// roleKind is a kind without options that has a role.
func roleKind(name string, role model.Role) config.Kind {
	return config.Kind{
		Name:     name,
		Options:  func() any { return &struct{}{} },
		Validate: func(any, model.Report) any { return name },
		Role:     func(any) model.Role { return role },
	}
}

func testEnvironment(variables map[string]string) config.Environment {
	return config.Environment{LookupEnv: func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}}
}

// say prints every problem of a file and what it includes, as validate does.
func say(w io.Writer, file string) (problems []model.Problem) {
	documents, _, problems := config.Load(file)
	if len(problems) == 0 || len(documents) > 0 {
		problems = append(problems, config.Resolve(documents, testKinds(), testEnvironment(map[string]string{"TOKEN": "secret"})).Problems...)
	}
	for _, problem := range problems {
		config.Print(w, problem)
	}
	return problems
}

// TestMistakes holds the exact words of each kind of mistake: a file each, with
// what is printed beside it.
func TestMistakes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 80 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			var got strings.Builder
			problems := say(&got, file)
			if len(problems) == 0 {
				t.Error("no problem is reported")
			}
			for i, problem := range problems {
				if problem.Message == "" || strings.ContainsAny(problem.Message+problem.Hint, "\n") || strings.HasSuffix(problem.Message, ".") {
					t.Errorf("not one clear line: %q, %q", problem.Message, problem.Hint)
				}
				if strings.Contains(problem.Error(), "secret") && !strings.Contains(problem.Error(), "secrets/") {
					t.Errorf("a secret is told: %v", problem)
				}
				if slices.Index(problems, problem) != i {
					t.Errorf("told twice: %v", problem)
				}
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
