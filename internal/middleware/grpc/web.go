// Package grpc holds the middleware that lets clients which do not speak gRPC
// itself reach services that do: grpc_web. It passes messages on as they are and
// knows nothing of what is in them.
package grpc

import (
	"errors"
	"io"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/rpc"
)

// WebOptions are the options of grpc_web: none.
type WebOptions struct{}

// web is the settings of grpc_web.
type web struct{}

// Web is the kind grpc_web: calls as browsers make them, over any version of HTTP,
// go on as gRPC, and their answers come back as they were asked for
// (doc/PROTOCOL-WEB.md of grpc/grpc). Everything else passes.
func Web() pipeline.Kind {
	return pipeline.NewKind("grpc_web", func() *WebOptions { return &WebOptions{} },
		func(*WebOptions, model.Report) web { return web{} },
		func(_ *pipeline.Site, w web) pipeline.Middleware { return w.middleware })
}

func (web) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		form := pipeline.CallOf(x.Request)
		if !form.IsWeb() {
			return next.Serve(x)
		}
		client := x.Request
		defer func() { x.Request = client }() // errors and the log are about what the client asked
		x.Request = asGRPC(client, form)
		if err := next.Serve(x); err != nil {
			return err
		}
		asWeb(x, client)
		return nil
	})
}

// asGRPC is the request of a call as gRPC has it.
func asGRPC(client *message.Request, form rpc.Form) *message.Request {
	r := *client
	r.Fields = client.Fields.Clone()
	_, suffix := rpc.FormOf(client.Fields.Get(message.ContentType))
	r.Fields.Put(message.ContentType, rpc.Plain.ContentType(suffix))
	r.Fields.Put(message.TE, "trailers")
	r.Fields.Delete("Accept") // what it names no endpoint of gRPC has
	if form == rpc.WebText && client.Body != nil {
		r.Fields.Delete(message.ContentLength.String())
		r.Body, r.Length = &textReader{ReadCloser: client.Body}, message.Unknown
	}
	return &r
}

// asWeb makes an answer of gRPC the one that the client wants. Another answer
// passes: its client knows what a status of HTTP means.
func asWeb(x *pipeline.Exchange, client *message.Request) {
	r := x.Response
	form, suffix := rpc.FormOf(r.Fields.Get(message.ContentType))
	if form != rpc.Plain || r.Tunnel != nil {
		return
	}
	pipeline.EndCall(x, true)
	form, _ = pipeline.WebAnswer(client)
	r.Fields.Put(message.ContentType, form.ContentType(suffix))
	r.Fields.Delete(message.Trailer.String())
	body := &webBody{inner: r.Body, trailer: r.Trailer, early: takeEnding(&r.Fields)}
	r.Trailer, r.Length = nil, message.Unknown
	r.Body = body
	if form == rpc.WebText {
		r.Body = &textWriter{webBody: body}
	}
}

// takeEnding takes out of a head what tells how the call ended. The body has it
// instead, where a page can read it whatever its origin.
func takeEnding(fields *message.Fields) (ending message.Fields) {
	if _, told := fields.Find(rpc.StatusField); !told {
		return nil
	}
	for _, name := range []string{rpc.StatusField, rpc.MessageField, rpc.DetailsField, rpc.RetryPushbackField} {
		if value, ok := fields.Find(name); ok {
			ending.Add(name, value)
			fields.Delete(name)
		}
	}
	return ending
}

// webBody is the body of an answer of gRPC with its trailer as the last frame.
type webBody struct {
	inner   io.ReadCloser         // nil: none
	trailer func() message.Fields // nil: none
	early   message.Fields        // what the head had instead; nil: nothing

	frame []byte // what is left of the last frame
	ended bool   // that has begun

	closed bool
}

// Read reads messages as they come, then the frame.
func (b *webBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b.closed {
		return 0, errClosed
	}
	if !b.ended {
		n, err := b.messages(p)
		if err != io.EOF { //nolint:errorlint // as io.Reader has it; failures may wrap it
			return n, err
		}
		b.ended, b.frame = true, b.last()
		if n > 0 {
			return n, nil
		}
	}
	if len(b.frame) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.frame)
	b.frame = b.frame[n:]
	return n, nil
}

func (b *webBody) messages(p []byte) (int, error) {
	if b.inner == nil {
		return 0, io.EOF
	}
	return b.inner.Read(p)
}

// last is the last frame. An endpoint that ended without a status has failed.
func (b *webBody) last() []byte {
	var fields message.Fields
	if b.trailer != nil {
		fields = b.trailer().Clone()
	}
	if _, told := fields.Find(rpc.StatusField); !told {
		if b.early == nil {
			b.early = pipeline.Ending(rpc.Internal, "The upstream ended the response without a status.")
		}
		fields = append(fields, b.early...)
	}
	return pipeline.FrameTrailer(fields)
}

// Buffered is how much of it is there.
func (b *webBody) Buffered() int {
	switch {
	case b.ended:
		return len(b.frame)
	case b.inner == nil, b.closed:
		return 0
	}
	return message.Buffered(b.inner)
}

// errClosed is what reading a body gives after its Close.
var errClosed = errors.New("the body of a response was read after its Close")

// Close closes the endpoint's body.
func (b *webBody) Close() error {
	b.closed, b.frame = true, nil
	if b.inner == nil {
		return nil
	}
	return b.inner.Close()
}
