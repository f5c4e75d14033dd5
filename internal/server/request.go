package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"sluice/internal/message"
)

// newRequest turns net/http's request into a message, all but the body.
// net/http keeps neither the order nor the spelling of fields: they come sorted
// by name, the lines of one name in order.
func newRequest(r *http.Request) *message.Request {
	path, query := splitTarget(r.Method, r.RequestURI)
	request := &message.Request{
		Protocol: protocol(r),
		Method:   r.Method,
		Scheme:   "http",
		Target:   r.RequestURI,
		Host:     r.Host,
		Path:     path,
		Query:    query,
		Fields:   requestFields(r),
		Length:   r.ContentLength,
	}
	if r.TLS != nil {
		request.Scheme = "https"
	}
	return request
}

func protocol(r *http.Request) message.Protocol {
	switch {
	case r.ProtoMajor == 2:
		return message.HTTP2
	case r.ProtoMajor == 3:
		return message.HTTP3
	case r.ProtoAtLeast(1, 1):
		return message.HTTP11
	}
	return message.HTTP10
}

// splitTarget returns the path and the query of a request target (RFC 9112
// 3.2), byte for byte. The query has its "?".
func splitTarget(method, target string) (path, query string) {
	if !strings.HasPrefix(target, "/") {
		if _, rest, ok := strings.Cut(target, "://"); ok { // absolute-form
			end := strings.IndexAny(rest, "/?")
			if end < 0 {
				end = len(rest)
			}
			if target = rest[end:]; target == "" && method == http.MethodOptions {
				return "*", "" // RFC 9112 3.2.4
			} else if !strings.HasPrefix(target, "/") {
				return "/", target
			}
		}
	}
	if mark := strings.IndexByte(target, '?'); mark >= 0 {
		return target[:mark], target[mark:]
	}
	return target, ""
}

func requestFields(r *http.Request) message.Fields {
	lines := len(r.Header)
	for _, values := range r.Header {
		lines += len(values) - 1
	}
	fields := make(message.Fields, 0, lines+1)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		id := message.Lookup(name)
		switch id {
		case message.Host, message.ContentLength, message.TransferEncoding:
			continue
		}
		for _, value := range r.Header[name] {
			fields = append(fields, message.Field{Name: name, Value: value, ID: id})
		}
	}
	if len(r.Trailer) > 0 { // net/http takes the announcement out of the header
		fields.Add("Trailer", strings.Join(slices.Sorted(maps.Keys(r.Trailer)), ", "))
	}
	return fields
}

// trailerFields are the trailers that came; complete after the body's end.
func trailerFields(r *http.Request) message.Fields {
	var fields message.Fields
	for _, name := range slices.Sorted(maps.Keys(r.Trailer)) {
		for _, value := range r.Trailer[name] {
			fields.Add(name, value)
		}
	}
	return fields
}
