package transport

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

type textHeader = textproto.MIMEHeader

// request turns a message, which is sendable, into what net/http sends, byte
// for byte where it can.
func (a *attempt) request(ctx context.Context, in *message.Request) *http.Request {
	out := &http.Request{
		Method: in.Method,
		URL:    a.url(in),
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: headerOf(in.Fields),
		Host:   in.Host,
	}
	if a.body != nil {
		a.sendBody(in, out)
	}
	return out.WithContext(httptrace.WithClientTrace(ctx, a.trace()))
}

// url puts the target where net/http takes it as it is. One that begins with
// two slashes it would make an absolute form of; the connection mends that.
func (a *attempt) url(in *message.Request) *url.URL {
	target := &url.URL{Scheme: "http", Host: a.transport.endpoint.Host, Opaque: in.Path}
	if target.Host == "" {
		target.Host = "localhost" // net/http wants some
	}
	if query, ok := strings.CutPrefix(in.Query, "?"); ok {
		target.RawQuery, target.ForceQuery = query, true
	}
	a.slashes = strings.HasPrefix(in.Path, "//")
	return target
}

func (a *attempt) sendBody(in *message.Request, out *http.Request) {
	if in.Length == 0 {
		_ = a.body.Close() // nothing will be read of it
		a.body = nil
		return
	}
	a.sending = newSending(a.body)
	out.Body, out.ContentLength = a.sending, in.Length
	if in.Length < 0 {
		out.TransferEncoding = []string{"chunked"}
		if in.Trailer != nil {
			out.Trailer = declaredTrailer(in.Fields)
			a.sending.atEnd = func() { fillTrailer(out.Trailer, in.Trailer()) }
		}
	}
}

// declaredTrailer is what the Trailer field announces, without values.
func declaredTrailer(fields message.Fields) http.Header {
	trailer := http.Header{}
	for name := range fields.List(message.Trailer) {
		if name = http.CanonicalHeaderKey(name); httpguts.ValidTrailerHeader(name) && httpguts.ValidHeaderFieldName(name) {
			trailer[name] = nil
		}
	}
	return trailer
}

// fillTrailer puts the trailer in, announced or not, but for fields that may
// not be one (RFC 9110 6.5.1).
func fillTrailer(trailer http.Header, fields message.Fields) {
	for _, field := range fields {
		name := http.CanonicalHeaderKey(field.Name)
		if httpguts.ValidTrailerHeader(name) && !invalid(field) {
			trailer[name] = append(trailer[name], field.Value)
		}
	}
}

// sendable refuses what would break out of its place in the head.
func sendable(in *message.Request) error {
	if !httpguts.ValidHeaderFieldName(in.Method) { // a token, too (RFC 9110 9.1)
		return pipeline.NewError(pipeline.BadRequest, errors.New("invalid method"))
	}
	if in.Path == "" || !visible(in.Path) || !visible(in.Query) {
		return pipeline.NewError(pipeline.BadRequest, errors.New("invalid target"))
	}
	if !httpguts.ValidHostHeader(in.Host) {
		return pipeline.NewError(pipeline.BadRequest, errors.New("invalid Host"))
	}
	if slices.ContainsFunc(in.Fields, invalid) {
		return pipeline.NewError(pipeline.BadRequest, errors.New("invalid field"))
	}
	return nil
}

// visible tells whether nothing in a part of a target would end it, or the line.
func visible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] == 0x7f {
			return false
		}
	}
	return true
}

func invalid(field message.Field) bool {
	return !httpguts.ValidHeaderFieldName(field.Name) || !httpguts.ValidHeaderFieldValue(field.Value)
}

// headerOf keeps the spelling of names and the order among equal ones; equal
// ones take the spelling of the first. net/http sorts by name.
func headerOf(fields message.Fields) http.Header {
	header := make(http.Header, len(fields)+1)
	for i := range fields {
		name := fields[i].Name
		switch fields[i].ID {
		case message.Host, message.ContentLength, message.TransferEncoding, message.Trailer:
			continue // they follow from the message
		case message.Expect, message.Connection:
			name = fields[i].ID.String() // net/http looks for these
		}
		if _, ok := header[name]; !ok {
			for other := range header {
				if strings.EqualFold(other, name) {
					name = other
					break
				}
			}
		}
		header[name] = append(header[name], fields[i].Value)
	}
	const userAgent = "User-Agent"
	agents := header[userAgent]
	header[userAgent] = nil // else net/http adds its own, or sends the first alone
	switch {
	case len(agents) == 1:
		header[userAgent] = agents
	case len(agents) > 1:
		header[strings.ToLower(userAgent)] = agents
	}
	return header
}

// fieldsOf is a header as a field list, sorted by name, as net/http has lost
// the order. What tells the length is left out.
func fieldsOf(header http.Header) message.Fields {
	names := make([]string, 0, len(header))
	size := 0
	for name, values := range header {
		names = append(names, name)
		size += len(values)
	}
	slices.Sort(names)
	fields := make(message.Fields, 0, size+1)
	for _, name := range names {
		id := message.Lookup(name)
		if id == message.ContentLength || id == message.TransferEncoding {
			continue
		}
		for _, value := range header[name] {
			fields = append(fields, message.Field{Name: name, Value: value, ID: id})
		}
	}
	return fields
}
