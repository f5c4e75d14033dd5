package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
	"sluice/internal/model"
)

type formOptions struct {
	Some   config.Several[innerOptions] `config:"some"`
	Claims config.RequiredClaims        `config:"claims"`
}

func decodeForms(text string) (got *formOptions, problems []string) {
	kinds := []config.Kind{{
		Name:    "form",
		Options: func() any { return &formOptions{} },
		Validate: func(options any, _ model.Report) any {
			got, _ = options.(*formOptions)
			return got
		},
	}}
	result := config.Resolve([]config.Document{{Name: "x", Data: []byte(listen + "global: [{form: " + text + "}]\n")}}, kinds, config.Environment{})
	for _, p := range result.Problems {
		problems = append(problems, p.Message)
	}
	return got, problems
}

func TestForms(t *testing.T) {
	for text, want := range map[string]formOptions{
		"{some: {level: 3}}":               {Some: config.Several[innerOptions]{{Level: 3}}},
		"{some: {}}":                       {Some: config.Several[innerOptions]{{Level: 7}}},
		"{some: [{level: 3}, {}]}":         {Some: config.Several[innerOptions]{{Level: 3}, {Level: 7}}},
		"{claims: [a, b]}":                 {Claims: config.RequiredClaims{{Name: "a"}, {Name: "b"}}},
		"{claims: {a: x, b.c: [1, true]}}": {Claims: config.RequiredClaims{{Name: "a", Values: []string{"x"}}, {Name: "b.c", Values: []string{"1", "true"}}}},
	} {
		got, problems := decodeForms(text)
		if problems != nil {
			t.Fatal(text, problems)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestFormsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"{some: [{level: x}]}":  `level must be a whole number, not the text "x"`,
		"{some: 7}":             "some must be a mapping of keys to values, not the number 7",
		"{claims: a}":           `claims must be a list of names, or a mapping of names to values, not the text "a"`,
		"{claims: [a, a]}":      "the claim a is here twice",
		"{claims: ['']}":        "claims has an empty name",
		"{claims: {a: []}}":     "a has no value that would do",
		"{claims: {a: {b: c}}}": "a must be a text, a number, true or false, not a mapping",
		"{claims: {a: }}":       "a has no value",
		"{claims: {a: ''}}":     "a is empty",
	} {
		_, problems := decodeForms(text)
		if len(problems) != 1 || problems[0] != want {
			t.Errorf("%s: %q", text, problems)
		}
	}
}
