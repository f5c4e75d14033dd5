// Package edit holds the middleware that changes messages without deciding
// about them: headers.
package edit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// HeadersOptions are the options of headers.
type HeadersOptions struct {
	Request  Edits `config:"request" doc:"edits of the request before it goes on"`
	Response Edits `config:"response" doc:"edits of the response on its way back; problem documents of the gateway too"`
}

// Edits are what is done to a field list, in this order: remove, set, add.
type Edits struct {
	Set    config.Map[config.Template] `config:"set" doc:"gives fields one value each, whatever they had, in trailers too; placeholders work"`
	Add    config.Map[config.Template] `config:"add" doc:"appends field lines; placeholders work"`
	Remove []string                    `config:"remove" doc:"drops fields, from trailers too"`
}

// headers are the settings of headers.
type headers struct {
	Request, Response edits
}

type edits struct {
	Remove   []string
	Set, Add []model.FieldTemplate
}

// Headers is the kind headers: it sets, adds and removes fields of requests and
// responses. What frames or routes a message is not among them.
func Headers() pipeline.Kind {
	return pipeline.RoleOf(pipeline.NewKind("headers", func() *HeadersOptions { return &HeadersOptions{} },
		func(o *HeadersOptions, report model.Report) headers {
			settings := headers{validate(&o.Request, "request", report), validate(&o.Response, "response", report)}
			if settings.Request.empty() && settings.Response.empty() {
				report("", "headers does nothing", "name fields under request or response, in set, add or remove")
			}
			return settings
		},
		func(_ *pipeline.Site, h headers) pipeline.Middleware { return h.middleware }), headers.role)
}

// role is Telling where the request is told who the client is. The response is edited
// after all of the chain.
func (h headers) role() model.Role {
	told := func(f model.FieldTemplate) bool {
		return slices.ContainsFunc(f.Value.Parts, func(p model.TemplatePart) bool {
			return p.Source == model.FromConsumer || p.Source == model.FromClaim
		})
	}
	if slices.ContainsFunc(h.Request.Set, told) || slices.ContainsFunc(h.Request.Add, told) {
		return model.Telling
	}
	return model.Plain
}

// refuse tells what is wrong with an edit of a field: nothing is accepted that
// the gateway would undo. kind is set, add or remove.
//
// A field of a request that differs only by _ for - from one of those counts as it, as
// some endpoints take it for that.
func refuse(direction, kind, name string) (text, hint string) {
	meant := name
	if direction == "request" {
		meant = strings.ReplaceAll(name, "_", "-")
	}
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "the field name " + strconv.Quote(name) + " is not valid", "field names are letters, digits and -"
	case message.Lookup(meant).OfEngine(), direction == "request" && endsHere(meant):
		return "the field " + name + " belongs to the connection and cannot be edited", "leave it to the gateway"
	case direction == "request":
		return refuseRequest(kind, name, meant)
	case message.Lookup(name) == message.XRequestID:
		return name + " is set by the gateway and cannot be edited", "set another field to {request_id}"
	}
	return "", ""
}

// endsHere tells of a field of a request that goes no further than to the next
// hop (RFC 9110 11.7), or that asks for HTTP/2.
func endsHere(name string) bool {
	switch message.Lookup(name) {
	case message.ProxyAuthenticate, message.ProxyAuthorization:
		return true
	}
	return strings.EqualFold(name, "HTTP2-Settings") || strings.EqualFold(name, "Proxy-Authentication-Info")
}

// refuseRequest is refuse for requests, by the name that is meant.
func refuseRequest(kind, name, meant string) (text, hint string) {
	if meant != name && pipeline.GatewaySets(meant) {
		return name + " would be taken for a field that the gateway sets", "write another name"
	}
	switch message.Lookup(meant) {
	case message.Host:
		return "Host is not edited by headers", "use the route's rewrite.host"
	case message.XForwardedFor, message.XRealIP, message.Via:
		return name + " is set by the gateway and cannot be edited", "set another field, with {client_ip} for the client's address"
	case message.XRequestID:
		return name + " is set by the gateway and cannot be edited", "set another field to {request_id}"
	case message.XForwardedProto, message.XForwardedHost:
		if kind != "set" {
			return name + " is one line that every request has: it can only be set", "write it under set"
		}
	}
	return "", ""
}

func validate(e *Edits, path string, report model.Report) (out edits) {
	check := func(where, kind, name string) {
		if text, hint := refuse(path, kind, name); text != "" {
			report(where, text, hint)
		}
	}
	same, why := strings.EqualFold, "case does not tell names apart"
	if path == "request" { // where to set one drops what is alike
		same, why = message.Alike, "neither case nor _ for - tells names apart"
	}
	templates := func(kind string, m config.Map[config.Template]) (list []model.FieldTemplate) {
		for _, entry := range m {
			where := path + "." + kind + "." + entry.Key
			check(where, kind, entry.Key)
			if text := entry.Value.String(); !httpguts.ValidHeaderFieldValue(text) {
				report(where, "the value of "+entry.Key+" has a control character", "leave it out; a value is one line")
			}
			if kind == "set" && slices.ContainsFunc(list, func(f model.FieldTemplate) bool { return same(f.Name, entry.Key) }) {
				report(where, "the field "+entry.Key+" is set twice: "+why, "keep one of them")
			}
			list = append(list, model.FieldTemplate{Name: entry.Key, Value: entry.Value.Template})
		}
		return list
	}
	for i, name := range e.Remove {
		check(path+".remove["+strconv.Itoa(i)+"]", "remove", name)
	}
	return edits{Remove: slices.Clone(e.Remove), Set: templates("set", e.Set), Add: templates("add", e.Add)}
}

func (e *edits) empty() bool { return len(e.Remove)+len(e.Set)+len(e.Add) == 0 }

func (h headers) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		if err := h.Request.apply(x, x.DropRequestField, x.SetRequestField, &x.Request.Fields); err != nil {
			return err
		}
		err := next.Serve(x)
		if err == nil {
			return h.Response.apply(x, x.DropResponseField, x.SetResponseField, &x.Response.Fields)
		}
		e := pipeline.AsError(err)
		return cmp.Or(h.Response.apply(x, e.Fields.Delete, e.Fields.Set, &e.Fields), error(e))
	})
}

// apply edits the fields of a message, by what drops and sets one there; values come
// from the exchange as it is now.
func (e *edits) apply(x *pipeline.Exchange, drop func(name string), set func(name, value string), fields *message.Fields) error {
	for _, name := range e.Remove {
		drop(name)
	}
	for i := range e.Set {
		value, err := x.ExpandField(&e.Set[i].Value)
		if err != nil {
			return err
		}
		set(e.Set[i].Name, value)
	}
	for i := range e.Add {
		value, err := x.ExpandField(&e.Add[i].Value)
		if err != nil {
			return err
		}
		fields.Add(e.Add[i].Name, value)
	}
	return nil
}
