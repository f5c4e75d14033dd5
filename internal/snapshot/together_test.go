package snapshot_test

import (
	"testing"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/snapshot"
)

// TestTogether has what a kind finds odd in a whole gateway told where it stands, and
// nothing refused for it.
func TestTogether(t *testing.T) {
	kind := pipeline.NewKind("odd", func() *struct{} { return &struct{}{} }, func(*struct{}, model.Report) int { return 0 },
		func(*pipeline.Site, int) pipeline.Middleware { return nil })
	kind.Together = func(g *model.Gateway) []model.Problem {
		return []model.Problem{{Position: g.Routes[0].Chain[0].Position, Message: "odd together", Warning: true}}
	}
	text := "listeners: {web: {address: ':0'}}\nroutes: [{match: {path: /}, middleware: [odd: {}], respond: {status: 200}}]\n"
	compiled, _, problems := snapshot.Compile([]config.Document{document("it.yaml", text)}, []pipeline.Kind{kind}, environment())
	if compiled == nil || len(problems) != 1 || problems[0].Message != "odd together" || problems[0].Line != 2 || problems[0].Source == "" {
		t.Errorf("told %+v", problems)
	}
}
