package limit_test

import (
	"slices"
	"testing"

	"sluice/internal/config"
	"sluice/internal/model"
)

// TestTogether warns of a limit that requests meet twice, once for each place.
func TestTogether(t *testing.T) {
	const route, global = 6, 7
	for _, c := range []struct {
		what, global, route, skip string
		lines                     []int // of the warnings
	}{
		{"once each", "[few]", "[many, places]", "[]", nil},
		{"also in global", "[few]", "[many, few]", "[]", []int{route}},
		{"left out of global", "[few]", "[few]", "[few]", nil},
		{"twice in global", "[few, places, few]", "[many]", "[]", []int{global}},
		{"places twice", "[places]", "[places, few]", "[]", []int{route}},
		{"three times", "[few]", "[few, few]", "[]", []int{route, route}},
		{"alike, and not the same", "[few, {rate_limit: {rate: 1/s}}]", "[{rate_limit: {rate: 1/s}}]", "[]", nil},
		{"no limit", "[other]", "[other]", "[]", nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			half := []config.Kind{{Name: "other", Options: func() any { return &struct{}{} }, Validate: func(any, model.Report) any { return nil }}}
			for _, kind := range kinds() {
				half = append(half, config.Kind{Name: kind.Name, Options: kind.Options, Validate: kind.Validate})
			}
			result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
middleware: {few: {rate_limit: {rate: 1/s}}, many: {rate_limit: {rate: 9/s}}, places: {concurrency_limit: {max: 1}}, other: {other: {}}}
routes:
  - {id: one, match: {path: /1}, respond: {status: 200}, skip: ` + c.skip + `}
  - {id: two, match: {path: /2}, respond: {status: 200}, skip: ` + c.skip + `, middleware: ` + c.route + `}
global: ` + c.global + `
`)}}, half, config.Environment{})
			if result.Gateway == nil {
				t.Fatal(result.Problems)
			}
			var lines []int
			for _, kind := range kinds() {
				for _, p := range kind.Together(result.Gateway) {
					if !p.Warning {
						t.Errorf("%v is no warning", p)
					}
					lines = append(lines, p.Line)
				}
			}
			if !slices.Equal(lines, c.lines) {
				t.Fatalf("warnings at %v, want %v", lines, c.lines)
			}
		})
	}
}
