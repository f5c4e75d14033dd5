package config_test

import (
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/model"
)

type secretOptions struct {
	Secret config.Secret                   `config:"secret"`
	More   []secretOptions                 `config:"more"`
	File   *config.ListFile[secretOptions] `config:"file"`
}

// TestSecretsThatAreWrittenDown are warned of where they stand, and not told by that;
// those that come from outside are not.
func TestSecretsThatAreWrittenDown(t *testing.T) {
	kind := config.Kind{
		Name:     "key",
		Options:  func() any { return &secretOptions{} },
		Validate: func(options any, _ model.Report) any { return options },
		Warn: func(settings any, report model.Report) {
			if settings.(*secretOptions).Secret == "odd" {
				report("secret", "this is odd", "write another")
			}
		},
	}
	environment := config.Environment{
		LookupEnv: func(name string) (string, bool) { return map[string]string{"KEY": "let-me-in"}[name], name == "KEY" },
		ReadFile:  func(string) ([]byte, error) { return []byte("let-me-in"), nil },
		ReadList:  func(string) ([]byte, error) { return []byte("[{secret: let-me-in}]"), nil },
	}
	const written = "warning: secret is written down: whoever may read the document can use it (write '${file:PATH}' or '${NAME}')"
	for options, want := range map[string]string{
		"{secret: let-me-in}":                   "x:2:25: " + written,
		"{secret: \"${NONE:-let-me-in}\"}":      "x:2:25: " + written,
		"{secret: \"a${KEY}\"}":                 "x:2:25: " + written,
		"{more: [{secret: let-me-in}]}":         "x:2:33: " + written,
		"{secret: \"${KEY}\"}":                  "",
		"{secret: \"${file:key}\"}":             "",
		"{secret: ''}":                          "",
		"{file: keys}":                          "",
		"{secret: 7}":                           "x:2:25: secret must be text, not the number REDACTED (put it into quotes: \"REDACTED\")",
		"{secret: odd}":                         "x:2:25: " + written + "|x:2:25: warning: this is odd (write another)",
		"{secret: \"${ODD:-odd}\", nothing: 1}": "x:2:25: " + written + "|x:2:40: unknown key \"nothing\" (known here: secret, more, file)",
	} {
		result := config.Resolve([]config.Document{{Name: "x", Data: []byte(listen + "global: [{key: " + options + "}]\n")}}, []config.Kind{kind}, environment)
		var problems []string
		for _, p := range result.Problems {
			problems = append(problems, p.Error())
		}
		if got := strings.Join(problems, "|"); got != want || strings.Contains(model.Text(result.Problems), "let-me-in") {
			t.Errorf("%s:\n got %s\nwant %s", options, got, want)
		}
	}
}
