package config

import (
	"cmp"
	"slices"

	"sluice/internal/model"
)

// Locate adds problems that were found in the model to those of Resolve: it
// gives them the line of the document that they point at, and all their order.
func (r *Result) Locate(found []model.Problem) []model.Problem {
	order := map[string]int{}
	for i, src := range r.sources {
		order[src.Name] = i
	}
	problems := slices.Clone(r.Problems)
	for _, p := range found {
		if at, ok := order[p.File]; ok && p.Line > 0 {
			src := r.sources[at]
			if line := src.line(p.Line); len(line) <= longLine {
				p.Source = line
			}
			src.redact(&p)
		}
		problems = append(problems, p)
	}
	slices.SortStableFunc(problems, func(a, b model.Problem) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return problems
}
