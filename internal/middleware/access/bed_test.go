package access_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// built returns the middleware of a kind with options, its role, and the problems.
func built(kind pipeline.Kind, options string) (pipeline.Middleware, model.Role, []string) {
	kinds := []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate}} // without roles: it stands alone
	result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
routes: [{id: r, match: {path: "/{id}"}, respond: {status: 200}, middleware: [{` + kind.Name + `: ` + options + `}]}]
`)}}, kinds, config.Environment{})
	var problems []string
	for _, p := range result.Problems {
		problems = append(problems, p.Error())
	}
	if result.Gateway == nil {
		return nil, model.Plain, problems
	}
	step := &result.Gateway.Routes[0].Chain[0]
	return kind.Build(&pipeline.Site{Step: step, Route: result.Gateway.Routes[0]}, step.Settings), kind.Role(step.Settings), problems
}

// asked is an exchange of a request, as "METHOD /path", with fields as "Name: value".
func asked(t testing.TB, line string, fields ...string) *pipeline.Exchange {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r := &message.Request{Protocol: message.HTTP11, Method: method, Scheme: "https", Host: "API.example.com:8443", Path: path}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Fields.Add(name, value)
	}
	x := pipeline.NewExchange(t.Context(), r, &model.Listener{}, netip.MustParseAddrPort("10.1.2.3:1"), time.Time{})
	x.Route = &model.Route{ID: "r"}
	x.Params = []model.Param{{Name: "id", Value: strings.TrimPrefix(path, "/")}}
	return x
}

// answered is a destination whose response has fields.
func answered(fields ...string) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		x.Response = &message.Response{Status: 200}
		for _, field := range fields {
			name, value, _ := strings.Cut(field, ": ")
			x.Response.Fields.Add(name, value)
		}
		return nil
	})
}

// lines are fields as text, one a line.
func lines(fields message.Fields) string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Name+": "+f.Value)
	}
	return strings.Join(out, "\n")
}

// expectProblems holds what options of a kind are refused for to a table.
func expectProblems(t *testing.T, kind pipeline.Kind, table map[string]string) {
	t.Helper()
	for options, want := range table {
		_, _, problems := built(kind, options)
		got := strings.Join(problems, "|")
		if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", options, got, want)
		}
	}
}
