package config_test

import (
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/model"
)

// TestPrint holds that the caret stands under its column, whatever stands
// before it and however long the line is.
func TestPrint(t *testing.T) {
	long := strings.Repeat("0123456789", 30)
	for name, test := range map[string]struct {
		problem model.Problem
		want    string
	}{
		"plain":            {model.Problem{Position: model.Position{File: "f", Line: 2, Col: 3}, Message: "wrong", Hint: "right?", Source: "abcdef"}, "f:2:3: wrong\n  hint: right?\n    abcdef\n      ^\n"},
		"a warning":        {model.Problem{Position: model.Position{File: "f", Line: 2, Col: 1}, Message: "odd", Source: "a", Warning: true}, "f:2:1: warning: odd\n    a\n    ^\n"},
		"the whole":        {model.Problem{Position: model.Position{File: "f"}, Message: "empty"}, "f: empty\n"},
		"tabs":             {model.Problem{Position: model.Position{File: "f", Line: 1, Col: 4}, Message: "m", Source: "\ta\tbc"}, "f:1:4: m\n    \ta\tbc\n    \t \t^\n"},
		"wide":             {model.Problem{Position: model.Position{File: "f", Line: 1, Col: 3}, Message: "m", Source: "日本x"}, "f:1:3: m\n    日本x\n        ^\n"},
		"combining":        {model.Problem{Position: model.Position{File: "f", Line: 1, Col: 3}, Message: "m", Source: "e\u0301x"}, "f:1:3: m\n    e\u0301x\n     ^\n"},
		"past the end":     {model.Problem{Position: model.Position{File: "f", Line: 1, Col: 99}, Message: "m", Source: "ab"}, "f:1:99: m\n    ab\n      ^\n"},
		"a long line":      {model.Problem{Position: model.Position{File: "f", Line: 1, Col: 151}, Message: "m", Source: long}, "f:1:151: m\n    …" + long[91:191] + "…\n    " + strings.Repeat(" ", 60) + "^\n"},
		"its beginning":    {model.Problem{Position: model.Position{File: "f", Line: 1, Col: 1}, Message: "m", Source: long}, "f:1:1: m\n    " + long[:100] + "…\n    ^\n"},
		"no line to show":  {model.Problem{Position: model.Position{File: "f", Line: 1, Col: 1}, Message: "m"}, "f:1:1: m\n"},
		"a line of spaces": {model.Problem{Position: model.Position{File: "f", Line: 1, Col: 1}, Message: "m", Source: "   "}, "f:1:1: m\n"},
	} {
		var got strings.Builder
		config.Print(&got, test.problem)
		if got.String() != test.want {
			t.Errorf("%s: got\n%swant\n%s", name, got.String(), test.want)
		}
	}
}

// TestLines holds that lines are counted as the YAML library counts them.
func TestLines(t *testing.T) {
	for name, text := range map[string]string{
		"LF": "a: 1\n\nbad\u00e9: x\n", "CRLF": "a: 1\r\n\r\nbad\u00e9: x\r\n", "CR": "a: 1\r\rbad\u00e9: x\r", "NEL": "a: 1\u0085\u0085bad\u00e9: x", "LS": "a: 1\u2028\u2028bad\u00e9: x\n", "BOM": "\ufeffa: 1\n\nbad\u00e9: x\n",
	} {
		problems := resolveAny(t, text).Problems
		found := false
		for _, p := range problems {
			found = found || p.Line == 3 && p.Col == 1 && p.Source == "bad\u00e9: x"
		}
		if !found {
			t.Errorf("%s: %+v", name, problems)
		}
	}
	problems := resolveAny(t, `{"listeners": {"web": {"address": ":1"}}, "nothing": "`+strings.Repeat("x", 5000)+`"}`).Problems
	if len(problems) != 1 || problems[0].Source != "" || problems[0].Col != 43 {
		t.Errorf("%+v", problems)
	}
}
