package model

import "strings"

// Template is a text with placeholders, parsed. Placeholders are put in once,
// per request; what they yield is never expanded again.
type Template struct {
	Parts []TemplatePart
}

// TemplatePart is literal text or one placeholder.
type TemplatePart struct {
	Literal string
	Source  Placeholder // empty: literal
	Name    string      // of the path parameter, header, cookie or claim
}

// Placeholder says where a value comes from.
type Placeholder string

// The placeholders of SPEC 3.
const (
	FromParam     Placeholder = "param"
	FromClientIP  Placeholder = "client_ip"
	FromMethod    Placeholder = "method"
	FromHost      Placeholder = "host"
	FromPath      Placeholder = "path"
	FromQuery     Placeholder = "query"
	FromRequestID Placeholder = "request_id"
	FromRoute     Placeholder = "route"
	FromConsumer  Placeholder = "consumer"
	FromHeader    Placeholder = "header"
	FromCookie    Placeholder = "cookie"
	FromClaim     Placeholder = "claim"
)

// Builtins are the placeholders that stand alone, in the order in which
// documents list them. A path parameter may not bear one of these names.
var Builtins = [...]Placeholder{FromClientIP, FromMethod, FromHost, FromPath, FromQuery, FromRequestID, FromRoute, FromConsumer}

// Lookups are the placeholders that are followed by a dot and a name.
var Lookups = [...]Placeholder{FromHeader, FromCookie, FromClaim}

// Literal is a template without placeholders.
func Literal(text string) Template {
	if text == "" {
		return Template{}
	}
	return Template{Parts: []TemplatePart{{Literal: text}}}
}

// Static returns the text of a template without placeholders, and whether it
// is one.
func (t Template) Static() (string, bool) {
	switch {
	case len(t.Parts) == 0:
		return "", true
	case len(t.Parts) == 1 && t.Parts[0].Source == "":
		return t.Parts[0].Literal, true
	}
	return "", false
}

// String is the template as one would write it.
func (t Template) String() string {
	var out strings.Builder
	for _, part := range t.Parts {
		switch {
		case part.Source == "":
			out.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(part.Literal))
		case part.Source == FromParam:
			out.WriteString("{" + part.Name + "}")
		case part.Name != "":
			out.WriteString("{" + string(part.Source) + "." + part.Name + "}")
		default:
			out.WriteString("{" + string(part.Source) + "}")
		}
	}
	return out.String()
}
