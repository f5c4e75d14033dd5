package answer

import (
	"context"
	"io"
	"net/netip"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func exchange(method, path, query string, params ...model.Param) *pipeline.Exchange {
	request := &message.Request{Protocol: message.HTTP11, Method: method, Scheme: "http", Host: "shop.test:81", Path: path, Query: query}
	request.Fields.Add("X-Tenant", "a/b")
	x := pipeline.NewExchange(context.Background(), request, &model.Listener{Paths: model.Paths{MergeSlashes: true}}, netip.MustParseAddrPort("127.0.0.1:1"), time.Time{})
	x.Params = params
	return x
}

func parts(parts ...model.TemplatePart) model.Template { return model.Template{Parts: parts} }

func TestRedirect(t *testing.T) {
	literal := func(text string) model.TemplatePart { return model.TemplatePart{Literal: text} }
	rest := model.TemplatePart{Source: model.FromParam, Name: "rest"}
	for name, test := range map[string]struct {
		to          model.Template
		path, query string
		param       string
		want        string
	}{
		"relative stays relative":       {parts(literal("/new")), "/old", "", "", "/new"},
		"the query goes along":          {parts(literal("/new")), "/old", "?a=%zz", "", "/new?a=%zz"},
		"not beside one of its own":     {parts(literal("/new?b")), "/old", "?a", "", "/new?b"},
		"before the fragment":           {parts(literal("/new#f?g")), "/old", "?a", "", "/new?a#f?g"},
		"absolute":                      {parts(literal("https://"), model.TemplatePart{Source: model.FromHost}, model.TemplatePart{Source: model.FromPath}), "/x%20y", "", "", "https://shop.test/x%20y"},
		"never another host":            {parts(literal("/"), rest), "/r//evil.test", "", "/evil.test", "/evil.test"},
		"nor by a backslash":            {parts(literal("/"), rest), "/r", "", `\evil.test`, "/evil.test"},
		"a header's value is escaped":   {parts(literal("/t/"), model.TemplatePart{Source: model.FromHeader, Name: "x-tenant"}), "/", "", "", "/t/a%2Fb"},
		"a parameter stays as it stood": {parts(literal("/t/"), rest), "/", "", "a%2Fb", "/t/a%2Fb"},
	} {
		t.Run(name, func(t *testing.T) {
			x := exchange("GET", test.path, test.query, model.Param{Name: "rest", Value: test.param})
			if err := Redirect(&model.Redirect{To: test.to, Status: 308}).Serve(x); err != nil {
				t.Fatal(err)
			}
			if got := x.Response.Fields.Get(message.Location); got != test.want || x.Response.Status != 308 {
				t.Errorf("got %d %q, want %q", x.Response.Status, got, test.want)
			}
		})
	}
}

func TestRespond(t *testing.T) {
	body := parts(model.TemplatePart{Literal: "hello "}, model.TemplatePart{Source: model.FromParam, Name: "id"})
	respond := Respond(&model.Respond{Status: 201, Body: &body, Fields: []model.FieldTemplate{{Name: "X-Id", Value: parts(model.TemplatePart{Source: model.FromParam, Name: "id"})}}})

	x := exchange("GET", "/", "", model.Param{Name: "id", Value: "a%20b"})
	if err := respond.Serve(x); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(x.Response.Body)
	if id, _ := x.Response.Fields.Find("x-id"); err != nil || x.Response.Status != 201 || string(text) != "hello a b" || x.Response.Length != 9 || id != "a b" {
		t.Errorf("got %+v, body %q, %v", x.Response, text, err)
	}

	x = exchange("HEAD", "/", "", model.Param{Name: "id", Value: "1"})
	if err := respond.Serve(x); err != nil || x.Response.Body != nil || x.Response.Length != 7 {
		t.Errorf("HEAD: got %+v, %v", x.Response, err)
	}

	x = exchange("GET", "/", "", model.Param{Name: "id", Value: "a%0d%0aSet-Cookie:%20x"})
	if err := respond.Serve(x); pipeline.AsError(err) == nil || pipeline.AsError(err).Word != pipeline.BadRequest {
		t.Errorf("a line break in a field: got %v, want bad_request", err)
	}
}
