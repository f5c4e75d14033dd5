package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// errUpgrade is for requests that HTTP/2 has no form for. An extended CONNECT
// (RFC 8441) is not made of them.
var errUpgrade = errors.New("an upgrade needs HTTP/1.1, and the endpoint is spoken to by HTTP/2 alone")

// upgradeRefused is the error of such a request: the endpoint was not asked.
func upgradeRefused() error {
	err := pipeline.NewError(pipeline.UpstreamProtocol, errUpgrade)
	err.Detail = "An upgrade needs HTTP/1.1 to the upstream, which is spoken to by HTTP/2."
	return err
}

// RoundTrip does what pipeline.Transport asks for. Attempts of an executor do all
// that touches the client by its tasks (relay).
func (p *sharing) RoundTrip(ctx context.Context, try *pipeline.Attempt) error {
	request := try.Request
	body := request.Body
	if body != nil && request.Length == 0 {
		_ = body.Close() // nothing will be read of it
		body = nil
	}
	f, ready, err := p.prepare(ctx, try, body)
	if err != nil {
		if body != nil {
			_ = body.Close() // the error at hand is the one to tell
		}
		return err
	}
	if ready {
		body = nil
	}
	if own, executor := p.ownerOf(ctx); own != nil {
		return newRelay(f, try, own, executor).roundTrip(body) //nolint:contextcheck // the relay follows own, which is ctx
	}
	if body != nil {
		f.body.fillByGoroutine(body)
	}
	return f.roundTrip(ctx, try)
}

// prepare makes a flight of an attempt. A body that is small and there is read;
// then it is ready, and closed.
func (p *sharing) prepare(ctx context.Context, try *pipeline.Attempt, body io.ReadCloser) (f *flight, ready bool, err error) {
	err = sendable(try.Request)
	switch {
	case err != nil:
		return nil, false, err
	case try.Request.Fields.Has(message.Upgrade):
		return nil, false, upgradeRefused()
	case ctx.Err() != nil:
		return nil, false, ended(ctx)
	}
	f = &flight{pool: p, request: try.Request, introduction: introduction(p.proxyProtocol, try)}
	if body == nil {
		return f, true, nil
	}
	f.body = newOutgoing(try.Request)
	if !try.Request.Fields.Has(message.Expect) { // else it is asked for later, if at all
		ready, err = f.body.ready(body)
	}
	return f, ready, err
}

// ownerOf is whose tasks do an attempt; nil: goroutines do.
func (p *sharing) ownerOf(ctx context.Context) (*netloop.Context, netloop.Executor) {
	own, ok := ctx.(*netloop.Context)
	if !ok || p.engine == nil {
		return nil, nil
	}
	executor := own.Executor()
	if executor == nil || !slices.Contains(p.engine.executors, executor) {
		return nil, nil
	}
	return own, executor
}

// roundTrip does an attempt on the goroutine that calls.
func (f *flight) roundTrip(ctx context.Context, try *pipeline.Attempt) error {
	ctx, stop := try.Watch.Context(ctx)
	in := &incoming{flight: f, ctx: ctx, stop: stop}
	returned := false
	defer func() {
		if !returned { // the informer or the body panics, which goes on
			in.end()
		}
	}()
	news := informs{to: try.Informer, broke: stop}
	if try.Informer != nil {
		f.informer = news.add
	}
	in.unwatch = context.AfterFunc(ctx, f.body.stop) // the library does not look at ctx while it waits for the body
	response, err := f.send(ctx)                     //nolint:bodyclose // whoever takes the response closes it
	if response != nil {
		in.source = response.Body
	}
	news.wait()
	f.body.panicOf()
	if err == nil {
		err = f.answer(try, response)
	}
	returned = true
	switch {
	case err != nil:
		in.end()
		return err
	case try.Response.Body == nil || try.Response.Length == 0:
		in.end()
		return nil
	}
	try.Response.Body = in
	in.unwatch()
	in.unwatch = context.AfterFunc(ctx, in.abandon)
	return nil
}

// incoming is the body of a response for goroutines.
type incoming struct {
	*flight
	ctx     context.Context
	stop    context.CancelCauseFunc
	source  io.ReadCloser // nil: there is none
	unwatch func() bool
	ending  sync.Once
}

// Read reads from the endpoint. Any error ends the attempt.
func (in *incoming) Read(p []byte) (int, error) {
	n, err := in.source.Read(p)
	if err == nil {
		return n, nil
	}
	n = believable(n, err)
	if !errors.Is(err, io.EOF) {
		err = in.failure(in.ctx, err)
	}
	in.end()
	return n, err
}

// Close ends the attempt. What is still to come is reset.
func (in *incoming) Close() error {
	in.end()
	return nil
}

// abandon is what the end of the context does, from any goroutine.
func (in *incoming) abandon() {
	in.body.stop()
	_ = in.source.Close() // who reads gets the cause
}

// end gives back what the attempt holds.
func (in *incoming) end() {
	in.ending.Do(func() {
		in.unwatch()
		in.body.stop()
		if in.source != nil {
			_ = in.source.Close() // it waits for the end of the stream
		}
		in.land()
		in.stop(nil)
	})
}

// request turns a message, which is sendable, into what the library sends. The
// order of fields with different names is its own.
func (p *sharing) request(in *message.Request) *http.Request {
	target := &url.URL{Scheme: p.scheme(), Host: in.Host, Opaque: in.Path}
	if target.Host == "" {
		target.Host = p.endpoint.Host
	}
	if strings.HasPrefix(in.Path, "//") { // else an authority would be made of it
		target.Opaque = target.Scheme + "://" + target.Host + in.Path
	}
	if query, ok := strings.CutPrefix(in.Query, "?"); ok {
		target.RawQuery, target.ForceQuery = query, true
	}
	header := headerOf(in.Fields)
	for name, values := range header {
		switch message.Lookup(name) {
		case message.Connection, message.KeepAlive, message.ProxyConnection, message.TransferEncoding, message.Upgrade:
			delete(header, name) // RFC 9113 8.2.2
		case message.TE:
			if delete(header, name); slices.ContainsFunc(values, asksTrailers) {
				header["Te"] = []string{"trailers"}
			}
		case message.UserAgent:
			if len(values) > 1 { // the library sends the first alone
				header[name] = []string{strings.Join(values, ", ")}
			}
		}
	}
	return &http.Request{
		Method: in.Method, URL: target, Host: target.Host, Header: header,
		Proto: "HTTP/2.0", ProtoMajor: 2,
	}
}

func asksTrailers(value string) bool {
	return slices.ContainsFunc(strings.Split(value, ","), func(member string) bool {
		name, _, _ := strings.Cut(member, ";")
		return strings.EqualFold(strings.TrimSpace(name), "trailers")
	})
}

// answer turns the head of a response into a message. The body is the library's;
// nil where there is none.
func (f *flight) answer(try *pipeline.Attempt, in *http.Response) error {
	out := message.Response{Protocol: message.HTTP2, Status: in.StatusCode, Fields: fieldsOf(in.Header), Length: message.Unknown}
	switch {
	case slices.ContainsFunc(out.Fields, invalid):
		return pipeline.NewError(pipeline.UpstreamProtocol, errors.New("invalid field"))
	case in.StatusCode > 599:
		return pipeline.NewError(pipeline.UpstreamProtocol, errors.New("status "+strconv.Itoa(in.StatusCode)))
	case in.StatusCode == http.StatusNoContent:
		// It has no content whatever it says (RFC 9110 8.6, 15.3.5).
	case in.StatusCode == http.StatusNotModified, in.Request.Method == http.MethodHead:
		out.Length = toldLength(in.Header)
	default:
		out.Body, out.Length = in.Body, in.ContentLength
		announce(in, &out)
		out.Trailer = func() message.Fields { return trailerOf(in.Trailer) }
		if out.Length == 0 {
			out.Body = http.NoBody
		}
	}
	try.Response = out
	return nil
}
