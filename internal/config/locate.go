package config

import (
	"cmp"
	"slices"
	"strings"

	"sluice/internal/model"
)

// Locate gives problems that were found in the model what Resolve gives its
// own: the line of the document that they point at, and their order.
func Locate(documents []Document, problems []model.Problem) []model.Problem {
	lines, order := map[string][]string{}, map[string]int{}
	for i, d := range documents {
		order[d.Name] = i
	}
	for i := range problems {
		p := &problems[i]
		at, ok := order[p.File]
		if !ok || p.Source != "" || p.Line == 0 {
			continue
		}
		if lines[p.File] == nil {
			lines[p.File] = strings.Split(string(documents[at].Data), "\n")
		}
		if p.Line <= len(lines[p.File]) {
			p.Source = strings.TrimSuffix(lines[p.File][p.Line-1], "\r")
		}
	}
	slices.SortStableFunc(problems, func(a, b model.Problem) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return problems
}
