// Package answer holds the destinations that answer by themselves: a fixed
// response and a redirect. They reach no upstream.
package answer

import (
	"strings"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// Respond answers every exchange with the response that a route gives.
func Respond(r *model.Respond) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		response := &message.Response{Status: r.Status}
		for i := range r.Fields {
			value, err := x.ExpandField(&r.Fields[i].Value)
			if err != nil {
				return err
			}
			response.Fields.Set(r.Fields[i].Name, value)
		}
		if r.Body != nil {
			body := x.ExpandText(r.Body)
			response.Length = int64(len(body))
			if x.Request.Method != "HEAD" {
				response.Body = message.Text(body)
			}
			if !response.Fields.Has(message.ContentType) {
				response.Fields.Put(message.ContentType, "text/plain; charset=utf-8")
			}
		}
		x.Response = response
		return nil
	})
}

// Redirect answers every exchange with a Location (RFC 9110 10.2.2). The
// request's query goes along unless the route's target has one.
func Redirect(r *model.Redirect) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		location, err := x.ExpandURL(&r.To)
		if err != nil {
			return err
		}
		response := &message.Response{Status: r.Status}
		response.Fields.Put(message.Location, withQuery(location, x.Request.Query))
		x.Response = response
		return nil
	})
}

// withQuery puts a query, with its "?", behind a reference that has none of its
// own, before the fragment.
func withQuery(reference, query string) string {
	before, fragment, found := strings.Cut(reference, "#")
	if !strings.Contains(before, "?") {
		before += query
	}
	if found {
		return before + "#" + fragment
	}
	return before
}
