package auth

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// FromOptions are where a request has a credential.
type FromOptions struct {
	Header string `config:"header" doc:"a header field"`
	Scheme string `config:"scheme" doc:"with header: the authentication scheme that stands before it, as Bearer in Authorization"`
	Cookie string `config:"cookie" doc:"instead: a cookie"`
	Query  string `config:"query" doc:"instead: a parameter of the query; queries end up in many logs"`
}

// place is where a request has a credential. One of Header, Cookie and Query is set.
type place struct {
	Header, Scheme string
	Cookie         string
	Query          string
}

// placeOf is what options at a path of theirs mean; usual where there are none.
func placeOf(o *FromOptions, usual place, path string, report model.Report) place {
	if o == nil {
		return usual
	}
	named := 0
	for _, name := range []string{o.Header, o.Cookie, o.Query} {
		if name != "" {
			named++
		}
	}
	switch {
	case named != 1:
		report(path, path+" must name one place", "write {header: NAME}, {cookie: NAME} or {query: NAME}")
	case o.Scheme != "" && o.Header == "":
		report(path+".scheme", "scheme is for header fields", "remove it")
	case o.Header+o.Cookie != "" && !httpguts.ValidHeaderFieldName(o.Header+o.Cookie):
		report(path, "the name "+strconv.Quote(o.Header+o.Cookie)+" is not valid", "")
	case strings.EqualFold(o.Header, "host"), message.Lookup(o.Header).OfEngine():
		report(path+".header", "the field "+o.Header+" belongs to the connection: no credential can be there", "")
	case o.Scheme != "" && !httpguts.ValidHeaderFieldName(o.Scheme): // a token, too
		report(path+".scheme", "the scheme "+strconv.Quote(o.Scheme)+" is not valid", "")
	}
	return place{Header: o.Header, Scheme: o.Scheme, Cookie: o.Cookie, Query: o.Query}
}

// errSeveral says that a request has more than one credential in a place, so that two
// readers could take different ones.
var errSeveral = errors.New("there is more than one credential")

// find returns the credential of a request, and whether there is one. One of another
// scheme is none.
func (p *place) find(r *message.Request) (credential string, there bool, err error) {
	count := 0
	switch {
	case p.Header != "":
		for value := range r.Fields.Values(p.Header) {
			credential = value
			count++
		}
		if count == 1 && p.Scheme != "" {
			return schemed(credential, p.Scheme)
		}
	case p.Cookie != "":
		for value := range r.Fields.Cookies(p.Cookie) {
			credential = value
			count++
		}
	default:
		for pair := range parameters(r.Query) {
			if key, value, _ := strings.Cut(pair, "="); message.ParameterIs(key, p.Query) {
				credential = message.DecodeParameter(value)
				count++
			}
		}
	}
	if count > 1 {
		return "", false, errSeveral
	}
	return credential, count == 1, nil
}

// schemed is what follows a scheme (RFC 9110 11.4).
func schemed(value, scheme string) (credential string, there bool, err error) {
	name, rest, _ := strings.Cut(value, " ")
	if !strings.EqualFold(name, scheme) {
		return "", false, nil
	}
	return strings.TrimLeft(rest, " "), true, nil
}

// drop takes the credential out of a request, so that it goes no further.
func (p *place) drop(x *pipeline.Exchange) {
	r := x.Request
	switch {
	case p.Header != "":
		x.DropRequestField(p.Header)
	case p.Cookie != "":
		p.dropCookie(r)
	default:
		kept := make([]string, 0, strings.Count(r.Query, "&"))
		for pair := range parameters(r.Query) {
			if key, _, _ := strings.Cut(pair, "="); !message.ParameterIs(key, p.Query) {
				kept = append(kept, pair)
			}
		}
		if r.Query = strings.Join(kept, "&"); r.Query != "" {
			r.Query = "?" + r.Query
		}
	}
}

func (p *place) dropCookie(r *message.Request) {
	for i := range r.Fields {
		if r.Fields[i].ID != message.Cookie {
			continue
		}
		var kept []string
		for pair := range strings.SplitSeq(r.Fields[i].Value, ";") {
			pair = strings.Trim(pair, " \t")
			if name, _, _ := strings.Cut(pair, "="); name != p.Cookie && pair != "" {
				kept = append(kept, pair)
			}
		}
		r.Fields[i].Value = strings.Join(kept, "; ")
	}
	r.Fields.DeleteFunc(func(f message.Field) bool { return f.ID == message.Cookie && f.Value == "" })
}

// parameters yields the parts of a query, encoded.
func parameters(query string) func(yield func(pair string) bool) {
	return strings.SplitSeq(strings.TrimPrefix(query, "?"), "&")
}
