package pipeline

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/model"
)

// ExpandText puts the exchange's values into a template, as they are: for a body.
func (x *Exchange) ExpandText(t *model.Template) string {
	return x.expand(t, func(part model.TemplatePart) string { return decoded(part, x.value(part)) })
}

// ExpandField puts the exchange's values into a template for the value of a
// field. A control character among them is the client's fault.
func (x *Exchange) ExpandField(t *model.Template) (string, error) {
	text := x.ExpandText(t)
	for i := range len(text) {
		if text[i] < ' ' && text[i] != '\t' || text[i] == 0x7f {
			return "", NewError(BadRequest, errors.New("a control character in a value for a field"))
		}
	}
	return strings.Trim(text, " \t"), nil
}

// ExpandPath puts the exchange's values into a template for a path, and brings
// it into canonical form. The path and its parameters go in as they are, other
// values with everything escaped that is not plain text of one segment; none of
// those makes a dot segment. A value that makes the path break a rule is the
// client's fault, unless its listener only reports paths and the path as it
// came broke the rule.
func (x *Exchange) ExpandPath(t *model.Template) (string, error) {
	const mark = "\x00" // before a foreign value; no escaped text has it
	raw := x.expand(t, func(part model.TemplatePart) string {
		value := x.value(part)
		if part.Source == model.FromPath || part.Source == model.FromParam {
			return value
		}
		return mark + url.PathEscape(value)
	})
	if strings.Contains(raw, mark) {
		for segment := range strings.SplitSeq(raw, "/") {
			if err := foreignSegment(segment, mark); err != nil {
				return "", err
			}
		}
		raw = strings.ReplaceAll(raw, mark, "")
	}
	paths := x.Listener.Paths
	path, violation := canonical.Path("/"+strings.TrimLeft(raw, "/"), canonical.Options{KeepSlashes: !paths.MergeSlashes, EncodedSlash: canonical.Keep})
	if violation != nil && !paths.Report {
		return "", NewError(BadPath, fmt.Errorf("rewritten: %w", violation))
	}
	return "/" + strings.TrimLeft(path, "/"), nil
}

// foreignSegment refuses a segment with a value from a field, a cookie or the
// like that would lead elsewhere.
func foreignSegment(segment, mark string) error {
	text := strings.ReplaceAll(segment, mark, "")
	if text == segment || text == "" {
		return nil
	}
	path, violation := canonical.Path("/"+text, canonical.Options{EncodedSlash: canonical.Keep})
	if violation == nil && path == "/" {
		violation = errors.New("a value makes a dot segment")
	}
	if violation != nil {
		return NewError(BadPath, fmt.Errorf("rewritten: %w", violation))
	}
	return nil
}

// ExpandURL puts the exchange's values into a template for a Location: paths,
// parameters, the query and the host go in as they are, other values escaped.
// Without a scheme of the template's own the result is a reference within the
// host: it never begins with two slashes, nor with what would be a scheme, and is
// not empty (RFC 3986 4.2).
func (x *Exchange) ExpandURL(t *model.Template) (string, error) {
	text := x.expand(t, func(part model.TemplatePart) string {
		value := x.value(part)
		switch part.Source {
		case model.FromPath, model.FromParam, model.FromQuery, model.FromHost:
			return value
		default:
			return url.PathEscape(value)
		}
	})
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, `\`) { // browsers take one for the other
		text = "/" + strings.TrimLeft(text, `/\`)
	}
	if text == "" {
		text = "/"
	} else if first, _, _ := strings.Cut(text, "/"); openBegin(t) && strings.Contains(beforeQuery(first), ":") {
		text = "./" + text
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] == 0x7f {
			return "", NewError(BadRequest, errors.New("a control character in a value for a Location"))
		}
	}
	return text, nil
}

// openBegin tells whether values decide what a template's result begins with, a
// path or a scheme.
func openBegin(t *model.Template) bool {
	for _, part := range t.Parts {
		if part.Source != "" {
			return true
		}
		if strings.ContainsAny(part.Literal, `:/?#\`) {
			return false
		}
	}
	return false
}

// beforeQuery is a reference up to its query or fragment.
func beforeQuery(reference string) string {
	if end := strings.IndexAny(reference, "?#"); end >= 0 {
		return reference[:end]
	}
	return reference
}

func (x *Exchange) expand(t *model.Template, put func(model.TemplatePart) string) string {
	if text, ok := t.Static(); ok {
		return text
	}
	var out strings.Builder
	for _, part := range t.Parts {
		if part.Source == "" {
			out.WriteString(part.Literal)
		} else {
			out.WriteString(put(part))
		}
	}
	return out.String()
}

// value is what a placeholder stands for; paths and parameters stay encoded.
func (x *Exchange) value(part model.TemplatePart) string {
	switch part.Source {
	case model.FromParam:
		return x.Param(part.Name)
	case model.FromClientIP:
		if !x.ClientIP.IsValid() {
			return ""
		}
		return x.ClientIP.String()
	case model.FromMethod:
		return x.Request.Method
	case model.FromHost:
		return canonical.Host(x.Request.Host)
	case model.FromPath:
		return x.Request.Path
	case model.FromQuery:
		return strings.TrimPrefix(x.Request.Query, "?")
	case model.FromRequestID:
		return x.ID
	case model.FromRoute:
		if x.Route == nil {
			return ""
		}
		return x.Route.ID
	case model.FromConsumer:
		return x.Consumer
	case model.FromHeader:
		if strings.EqualFold(part.Name, "host") {
			return x.Request.Host
		}
		value, _ := x.Request.Fields.Find(part.Name)
		return value
	case model.FromCookie:
		value, _ := x.Request.Fields.Cookie(part.Name)
		return value
	case model.FromClaim:
		return x.claim(part.Name)
	}
	panic("BUG: no placeholder is called " + string(part.Source))
}

// decoded is the value of a parameter as people read it.
func decoded(part model.TemplatePart, value string) string {
	if part.Source != model.FromParam {
		return value
	}
	if text, err := url.PathUnescape(value); err == nil {
		return text
	}
	return value
}
