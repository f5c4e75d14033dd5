package h2

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// snapshot makes the fields that go out of the header as it is now: names in
// lower case and in order, nothing about the connection, nothing that would break
// the message (RFC 9113 8.2).
func (r *response) snapshot() {
	r.fields = make([]hpack.HeaderField, 0, len(r.header)+3)
	for key, values := range r.header {
		if strings.HasPrefix(key, http.TrailerPrefix) {
			continue
		}
		name := lowered(key)
		if r.notes(name, values) || !validName(name) {
			continue
		}
		for _, value := range values {
			r.add(name, value)
		}
	}
	if len(r.trailers) > 0 {
		r.fields = slices.DeleteFunc(r.fields, func(field hpack.HeaderField) bool {
			return slices.ContainsFunc(r.trailers, func(key string) bool { return strings.EqualFold(key, field.Name) })
		})
	}
	slices.SortStableFunc(r.fields, byName)
}

func (r *response) add(name, value string) { r.fields = appendField(r.fields, name, value) }

// appendField appends a field, if its value may be sent.
func appendField(fields []hpack.HeaderField, name, value string) []hpack.HeaderField {
	if !httpguts.ValidHeaderFieldValue(value) {
		return fields
	}
	return append(fields, hpack.HeaderField{Name: name, Value: strings.Trim(value, " \t")})
}

// notes takes what a field says about the response itself, and tells whether it
// stays here.
func (r *response) notes(name string, values []string) (stays bool) {
	switch name {
	case "connection":
		if httpguts.HeaderValuesContainsToken(values, "close") && r.status >= 200 {
			r.stream.conn.GoAway() // what net/http makes of it
		}
		return true
	case "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te":
		return true
	case "content-length":
		if len(values) > 0 {
			if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= 0 {
				r.declared, r.length = n, ""
				if values[0][0] != '+' && (values[0][0] != '0' || n == 0 && len(values[0]) == 1) {
					r.length = values[0]
				}
			}
		}
		return true
	case "content-type":
		r.typed = true
	case "content-encoding":
		r.typed = r.typed || len(values) > 0 && values[0] != "" // it says nothing of what is inside
	case "date":
		r.dated = true
	case "trailer":
		r.announce(values)
	}
	return false
}

func (r *response) announce(values []string) {
	for _, line := range values {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.Trim(name, " \t"))
			if httpguts.ValidHeaderFieldName(name) && httpguts.ValidTrailerHeader(name) && !slices.Contains(r.trailers, name) {
				r.trailers = append(r.trailers, name)
			}
		}
	}
}

// unannounced tells whether there is a trailer that was not.
func (r *response) unannounced() bool {
	for key := range r.header {
		if strings.HasPrefix(key, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// trailing makes the trailers: those announced, and those with net/http's prefix.
func (r *response) trailing() []hpack.HeaderField {
	if len(r.trailers) == 0 && !r.unannounced() {
		return nil
	}
	var fields []hpack.HeaderField
	for key, values := range r.header {
		plain, prefixed := strings.CutPrefix(key, http.TrailerPrefix)
		plain = http.CanonicalHeaderKey(plain)
		if !prefixed && !slices.Contains(r.trailers, plain) || !httpguts.ValidTrailerHeader(plain) || !httpguts.ValidHeaderFieldName(plain) {
			continue
		}
		for _, value := range values {
			fields = appendField(fields, lowered(plain), value)
		}
	}
	slices.SortStableFunc(fields, byName)
	return fields
}

func byName(a, b hpack.HeaderField) int { return strings.Compare(a.Name, b.Name) }
