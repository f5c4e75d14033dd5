package limit

import (
	"fmt"
	"slices"

	"sluice/internal/model"
)

// together returns what warns of a named limit of a kind that a route has more than once,
// as of its own and in global: that is one limit, of which each request takes as often.
func together(kind string) func(gateway *model.Gateway) []model.Problem {
	return func(gateway *model.Gateway) (problems []model.Problem) {
		told := map[model.Position]bool{}
		for _, route := range gateway.Routes {
			for i := range route.Chain {
				m := &route.Chain[i]
				same := func(other model.Middleware) bool { return other.Name == m.Name }
				first := slices.IndexFunc(route.Chain[:i], same)
				if m.Kind != kind || m.Name == "" || first < 0 || told[m.Position] {
					continue
				}
				told[m.Position] = true
				problems = append(problems, model.Problem{
					Position: m.Position, Warning: true,
					Message: fmt.Sprintf("requests of the route %s have met %s at %s already: each counts twice", route.ID, m.Name, route.Chain[first].Position),
					Hint:    "remove one of them",
				})
			}
		}
		return problems
	}
}
