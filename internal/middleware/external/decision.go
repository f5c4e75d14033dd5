package external

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// decision is what a service has said. It may be remembered, so nobody changes it.
type decision struct {
	allowed bool
	// Of one that allows: what becomes of the request and of its response.
	request  []edit
	query    []parameter
	response []edit
	who      *pipeline.Principal // nil: it does not say
	// Of one that refuses: the answer.
	status int
	fields message.Fields
	body   string

	alone bool // it is for the one who asked, and nobody else
}

// keepable tells whether a decision may be remembered: it is for all whose requests are
// alike, the service has not failed, and it is not too long.
func (d *decision) keepable() bool { return !d.alone && d.status < 500 && d.size() <= largestKept }

// size is how many bytes of text a decision keeps.
func (d *decision) size() int {
	size := len(d.body)
	for _, f := range d.fields {
		size += len(f.Name) + len(f.Value)
	}
	for _, edits := range [][]edit{d.request, d.response} {
		for _, e := range edits {
			size += len(e.name) + len(e.value)
		}
	}
	for _, p := range d.query {
		size += len(p.name) + len(p.value)
	}
	return size
}

// edit changes the lines of one name.
type edit struct {
	how         how
	name, value string
}

type how int

const (
	replace  how = iota // whatever there is
	add                 // a further line
	addNew              // where there is none
	replaced            // where there is one
	remove
)

// parameter is a value that a parameter of the query gets, or the end of it.
type parameter struct {
	name, value string
	remove      bool
}

// apply edits the fields of a message, by what drops one there.
func apply(edits []edit, drop func(name string), fields *message.Fields) {
	for i := range edits {
		e := &edits[i]
		_, there := fields.Find(e.name)
		switch {
		case e.how == remove:
			drop(e.name)
		case e.how == replace, e.how == replaced && there:
			drop(e.name)
			fields.Add(e.name, e.value)
		case e.how == add, e.how == addNew && !there:
			fields.Add(e.name, e.value)
		}
	}
}

// editable tells whether a service may change a field: what it may not belongs to the
// connection, or is what routing went by.
func editable(name string) bool {
	id := message.Lookup(name)
	return httpguts.ValidHeaderFieldName(name) && !id.OfEngine() && id != message.Host
}

var (
	errName  = errors.New("the service names somebody by no name: too long, no UTF-8, or with control characters")
	errNames = errors.New("the service names more than one consumer, of whom an upstream may take any")
)

// identify takes who the client is from what a service has said.
func (d *decision) identify(consumer, groups string, values func(name string) []string) error {
	var who pipeline.Principal
	if consumer != "" {
		names := values(consumer)
		if len(names) > 1 {
			return errNames
		}
		who.Name = strings.Join(names, "")
	}
	if groups != "" {
		for _, value := range values(groups) {
			for group := range strings.SplitSeq(value, ",") {
				if group = strings.TrimSpace(group); group != "" {
					who.Groups = append(who.Groups, group)
				}
			}
		}
	}
	switch {
	case !pipeline.ValidName(who.Name), slices.ContainsFunc(who.Groups, func(group string) bool { return !pipeline.ValidName(group) }):
		return errName
	case who.Name != "" || who.Groups != nil:
		d.who = &who
	}
	return nil
}

// rewriteQuery gives parameters of a query their new values; others stay as they came.
func rewriteQuery(query string, parameters []parameter) string {
	if len(parameters) == 0 {
		return query
	}
	var kept []string
	for pair := range strings.SplitSeq(strings.TrimPrefix(query, "?"), "&") {
		name, _, _ := strings.Cut(pair, "=")
		if pair != "" && !slices.ContainsFunc(parameters, func(p parameter) bool { return message.ParameterIs(name, p.name) }) {
			kept = append(kept, pair)
		}
	}
	for _, p := range parameters {
		if !p.remove {
			kept = append(kept, url.QueryEscape(p.name)+"="+url.QueryEscape(p.value))
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return "?" + strings.Join(kept, "&")
}
