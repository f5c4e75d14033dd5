package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// response turns what net/http received into a message, and repairs its framing
// where RFC 9110 says how. The attempt ends with it, or with an error.
func (a *attempt) response(in *http.Response) (*message.Response, error) {
	if in.Close && in.Header["Connection"] == nil {
		in.Header["Connection"] = a.turn.options()
	}
	out := &message.Response{Protocol: message.Protocol(in.Proto), Status: in.StatusCode, Fields: fieldsOf(in.Header), Length: message.Unknown}
	switch {
	case slices.ContainsFunc(out.Fields, invalid):
		return nil, a.refuse(in, "invalid field")
	case in.StatusCode == http.StatusSwitchingProtocols:
		return a.switched(in, out)
	case in.StatusCode < 200 || in.StatusCode > 599:
		return nil, a.refuse(in, "status "+strconv.Itoa(in.StatusCode))
	case in.StatusCode == http.StatusNoContent:
		if in.Header.Get("Content-Length") > "0" || len(in.TransferEncoding) > 0 {
			// It has no content whatever it says (RFC 9110 8.6, 15.3.5), and
			// what may follow is no next response.
			_ = a.connection.spoil() // nothing is to come
		}
		a.empty()
		return out, nil
	case in.StatusCode == http.StatusNotModified, in.Request.Method == http.MethodHead:
		out.Length = toldLength(in.Header)
		a.empty()
		return out, nil
	case in.ContentLength == 0:
		out.Body, out.Length = http.NoBody, 0
		a.empty()
		return out, nil
	}
	out.Length = in.ContentLength
	out.Body = &download{attempt: a, source: in.Body}
	if slices.Contains(in.TransferEncoding, "chunked") {
		announce(in, out)
		out.Trailer = func() message.Fields { return trailerOf(in.Trailer) }
	}
	return out, nil
}

// empty ends the attempt with a response without content. Content that came
// nevertheless would be taken for the next response.
func (a *attempt) empty() {
	if a.turn.more() {
		_ = a.connection.spoil() // nothing is to come
	}
	a.end()
}

// toldLength is the Content-Length of a response that has no content by itself.
func toldLength(header http.Header) int64 {
	length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err != nil || length < 0 {
		return message.Unknown
	}
	return length
}

// announce puts back the Trailer field, which net/http takes out.
func announce(in *http.Response, out *message.Response) {
	names := make([]string, 0, len(in.Trailer))
	for name := range in.Trailer {
		names = append(names, name)
	}
	if len(names) > 0 {
		slices.Sort(names)
		out.Fields.Put(message.Trailer, strings.Join(names, ", "))
	}
}

func trailerOf(trailer http.Header) message.Fields {
	fields := fieldsOf(trailer)
	fields.DeleteFunc(func(field message.Field) bool { return invalid(field) || !httpguts.ValidTrailerHeader(field.Name) })
	return fields
}

// refuse gives up a response that cannot be passed on.
func (a *attempt) refuse(in *http.Response, why string) error {
	_ = in.Body.Close()
	a.end()
	return pipeline.NewError(pipeline.UpstreamProtocol, errors.New(why))
}

func (a *attempt) switched(in *http.Response, out *message.Response) (*message.Response, error) {
	stream, ok := in.Body.(io.ReadWriteCloser)
	if !ok {
		return nil, a.refuse(in, "101 without Upgrade")
	}
	a.connection.tunnel.Store(true)
	// net/http lets go of the connection here, so that ctx is ours to follow.
	stop := context.AfterFunc(a.ctx, func() { _ = a.connection.Close() })
	out.Tunnel = &tunnel{attempt: a, stream: stream, stop: stop}
	return out, nil
}

// download is the body of a response.
type download struct {
	attempt *attempt
	source  io.ReadCloser
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.source.Read(p)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		_ = d.source.Close()
		err = d.attempt.failure(err)
	}
	d.attempt.end()
	return n, err
}

// Close ends the attempt; with it the connection, if there is more to come.
func (d *download) Close() error {
	err := d.source.Close()
	d.attempt.end()
	return err
}

// tunnel is the endpoint's side of an upgraded connection.
type tunnel struct {
	attempt *attempt
	stream  io.ReadWriteCloser
	stop    func() bool
}

func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.stream.Read(p)
	return n, t.failure(err)
}

func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.stream.Write(p)
	return n, t.failure(err)
}

func (t *tunnel) failure(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case t.attempt.ctx.Err() != nil:
		return ended(t.attempt.ctx)
	}
	return pipeline.NewError(pipeline.UpstreamReset, err)
}

// CloseWrite ends the direction to the endpoint.
func (t *tunnel) CloseWrite() error { return t.failure(t.attempt.connection.CloseWrite()) }

// Close ends both directions and the attempt.
func (t *tunnel) Close() error {
	t.stop()
	err := t.stream.Close()
	t.attempt.end()
	return err
}
