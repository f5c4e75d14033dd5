package server

import (
	"errors"
	"fmt"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// respond writes the exchange's response. cut says that it is not whole, and
// that the client sees so.
func (e *exchange) respond() (cut bool) {
	if !e.fits() {
		e.fail(e.misfit())
	}
	if e.failed && e.Err.Word == pipeline.ClientClosed {
		_ = e.Response.Close() // nobody reads it
		return true
	}
	cut, panicked := e.tryWrite()
	if panicked && !e.begun {
		e.Response = nil // it has panicked, and may do so again
		e.fail(pipeline.NewError(pipeline.Internal, nil))
		cut, panicked = e.tryWrite()
	}
	if panicked {
		e.client.conn.Reset()
	}
	return cut || panicked
}

// tryWrite is write; a panic of the body is noted where it cannot be told.
func (e *exchange) tryWrite() (cut, panicked bool) {
	defer func() {
		if value := recover(); value != nil {
			err := e.recovered(value)
			if panicked = true; e.begun {
				e.note(err)
			}
		}
	}()
	return e.write(), false
}

func (e *exchange) fits() bool { return e.misfit() == nil }

// misfit tells why the response cannot be written as it is.
func (e *exchange) misfit() error {
	err := misfit(e.Response)
	switch {
	case err != nil || e.Response.Tunnel == nil:
		return err
	case e.request.Protocol != message.HTTP11:
		return pipeline.NewError(pipeline.UpstreamProtocol, fmt.Errorf("an upgrade on %s", e.request.Protocol))
	case e.content.incomplete():
		return pipeline.NewError(pipeline.UpstreamProtocol, errEarlyUpgrade)
	}
	return nil
}

var errEarlyUpgrade = errors.New("an upgrade before the end of the request")

// misfit tells why no client can be sent a response.
func misfit(r *message.Response) error {
	switch {
	case r == nil:
		return pipeline.NewError(pipeline.Internal, errors.New("no handler set a response"))
	case r.Status == statusSwitchingProtocols && r.Tunnel == nil, r.Status < 200 && r.Status != statusSwitchingProtocols, r.Status > 599:
		return pipeline.NewError(pipeline.UpstreamProtocol, fmt.Errorf("a response of status %d", r.Status))
	case r.Tunnel != nil && r.Status != statusSwitchingProtocols:
		return pipeline.NewError(pipeline.Internal, fmt.Errorf("a tunnel with status %d", r.Status))
	}
	return nil
}

// The statuses that frame a response otherwise (RFC 9110 15).
const (
	statusContinue           = 100
	statusSwitchingProtocols = 101
	statusProcessing         = 102
	statusNoContent          = 204
	statusResetContent       = 205
	statusNotModified        = 304
	statusUpgradeRequired    = 426
)

// write sends head, body and trailers: the head with what is there of the body
// in one piece, the rest as it comes. Nothing is held back for more.
func (e *exchange) write() (cut bool) {
	r := e.Response
	defer func() { _ = r.Close() }() // read to its end, or told already
	e.out.close(e.client.conn.Executor())
	buffer := e.client.listener.heads.get()
	defer e.client.listener.heads.put(buffer)
	framing := e.responseFraming()
	out := e.appendHead(buffer[:0], &framing)
	p := payload{exchange: e, framing: framing.Body, left: r.Length, idle: e.idle()}
	var err error
	if p.done = framing.Body == wire.NoBody || framing.Body == wire.Sized && p.left == 0; !p.done {
		out, err = p.appendReady(out)
	}
	if err != nil && !e.failed {
		return e.instead(err)
	}
	switch lost := p.send(out); {
	case lost != nil && p.sent == 0 && !e.failed && errors.Is(lost, errTotal):
		return e.instead(lost) // it came too late; that can be told
	case lost != nil:
		return e.unheard(lost, p.sent)
	}
	if err == nil && !p.done {
		err = p.copy()
	}
	if err != nil {
		e.note(err)
		// A plain close looks like the end of a body that ends with the
		// connection, and may hide from the client what it has not read.
		if framing.Body == wire.UntilClose {
			e.client.conn.Reset()
		}
		return true
	}
	return false
}

// instead answers with an error, where the response failed before anything of it
// went out.
func (e *exchange) instead(err error) (cut bool) {
	e.fail(err)
	if e.Err.Word == pipeline.ClientClosed {
		_ = e.Response.Close() // nobody reads it
		return true
	}
	return e.write()
}

// unheard notes that the client could not be written to. One that got nothing at
// all has seen no status.
func (e *exchange) unheard(lost error, sent int) (cut bool) {
	err := lostClient(&e.ctx, lost)
	if sent == 0 && e.Err == nil {
		e.fail(err)
		_ = e.Response.Close() // nobody reads it
	} else {
		e.note(err)
	}
	return true
}

// idle bounds how long the client may take nothing of the response.
func (e *exchange) idle() time.Duration {
	if e.Route == nil {
		return defaultIdle
	}
	return stallOf(&e.Exchange)
}

// defaultIdle is for exchanges that reached no route, and for informational
// responses.
const defaultIdle = time.Minute

// responseFraming is how the response goes out.
func (e *exchange) responseFraming() (f wire.Framing) {
	r := e.Response
	if r.Body == nil || r.Length >= 0 && int64(message.Buffered(r.Body)) >= r.Length {
		_ = e.content.Close() // what is answered is there: nobody reads it any more
	}
	e.content.skim()
	e.closes = e.ends()
	f.Close = e.closes
	if e.request.Protocol == message.HTTP10 && !f.Close {
		f.KeepAlive = true
	}
	switch {
	case r.Body == nil || !allowsBody(e.request.Method, r.Status):
	case r.Length >= 0:
		f.Body, f.Length = wire.Sized, r.Length
	case e.request.Protocol == message.HTTP10:
		f.Body, f.Length = wire.UntilClose, message.Unknown
		f.Close, f.KeepAlive, e.closes = true, false, true
	default:
		f.Body, f.Length = wire.ChunkedBody, message.Unknown
	}
	return f
}

// allowsBody tells whether a response has content (RFC 9110 6.4.1).
func allowsBody(method string, status int) bool {
	switch status {
	case statusNoContent, statusResetContent, statusNotModified:
		return false
	}
	return method != "HEAD"
}

// ends tells whether the connection ends with this response, as far as that can
// be known before its body.
func (e *exchange) ends() bool {
	l := e.client.listener
	switch {
	case l.ending.Load(), unverified(l.model.Load(), e.ClientCertificate), e.framing.Close, e.request.Protocol == message.HTTP10 && !e.framing.KeepAlive:
		return true
	case e.failed && e.Err.Close, e.Response.Fields.HasToken(message.Connection, "close"):
		return true
	case !e.client.expires.IsZero() && !time.Now().Before(e.client.expires):
		return true
	}
	// Where a good response streams, both ends may well come together.
	streams := e.Response.Length < 0 && e.Response.Status < 300 && !e.content.hopeless()
	return e.content.incomplete() && !e.content.small() && !streams
}

// appendHead appends the head of the response. Fields that would break the
// message stay here.
func (e *exchange) appendHead(b []byte, f *wire.Framing) []byte {
	e.Identify()
	head := message.Response{Status: e.Response.Status, Fields: e.headFields(f.Body == wire.ChunkedBody && e.Response.Trailer != nil), Length: e.Response.Length}
	switch {
	case head.Status == statusResetContent:
		head.Length = 0
	case head.Status == statusNotModified, e.request.Method == "HEAD":
	case e.Response.Body == nil:
		head.Length = 0
	}
	out, err := wire.AppendResponseHead(b, &head, *f)
	if err != nil {
		head.Fields.DeleteFunc(func(field message.Field) bool { return !valid(&field) })
		if out, err = wire.AppendResponseHead(b, &head, *f); err != nil {
			panic("BUG: a response cannot be written: " + err.Error())
		}
	}
	return out
}

// headFields are the fields that go out: not those about the connection, which
// are the engine's, with the request id and the date. A 426 has to tell what to
// upgrade to (RFC 9110 15.5.22).
func (e *exchange) headFields(trailing bool) message.Fields {
	fields := e.Response.Fields
	date, id, hops := false, false, false
	for i := range fields {
		switch field := &fields[i]; field.ID {
		case message.Connection, message.KeepAlive, message.ProxyConnection, message.TE, message.Upgrade, message.Trailer:
			hops = true
		case message.Date:
			date = true
		case message.XRequestID:
			id = true
		}
	}
	if hops {
		fields = e.withoutHops(trailing)
	}
	if id {
		fields.Put(message.XRequestID, e.ID)
	} else {
		fields = append(fields, message.Field{Name: message.XRequestID.String(), Value: e.ID, ID: message.XRequestID})
	}
	if alternative := e.client.altSvc(); alternative != "" {
		fields = fields.Clone()
		fields.Put(message.AltSvc, alternative) // what an endpoint says there is about itself
	}
	if !date {
		fields = append(fields, message.Field{Name: message.Date.String(), Value: e.client.listener.clock.date(), ID: message.Date})
	}
	return fields
}

// withoutHops is a copy of the response's fields without those about the
// connection.
func (e *exchange) withoutHops(trailing bool) message.Fields {
	upgrade := e.Response.Status == statusUpgradeRequired && e.Response.Fields.Has(message.Upgrade)
	fields := make(message.Fields, 0, len(e.Response.Fields)+2)
	for _, field := range e.Response.Fields {
		switch field.ID {
		case message.Connection, message.KeepAlive, message.ProxyConnection, message.TE:
		case message.Trailer:
			if trailing {
				fields = append(fields, field)
			}
		case message.Upgrade:
			if upgrade {
				fields = append(fields, field)
			}
		default:
			fields = append(fields, field)
		}
	}
	if upgrade {
		fields.Put(message.Connection, "Upgrade")
	}
	return fields
}

// Inform sends an informational response (RFC 9110 15.2), unless the response
// has begun.
func (e *exchange) Inform(status int, fields message.Fields) {
	if status < statusProcessing || status > 199 {
		return
	}
	e.informational(&message.Response{Status: status, Fields: withoutEngine(fields), Length: message.Unknown})
}

// withoutEngine drops what frames a message, what is about a connection, and
// what would break the message.
func withoutEngine(fields message.Fields) message.Fields {
	kept := make(message.Fields, 0, len(fields))
	for _, field := range fields {
		if !field.ID.OfEngine() && valid(&field) {
			kept = append(kept, field)
		}
	}
	return kept
}

// proceed tells the client to send the body (RFC 9110 10.1.1).
func (e *exchange) proceed() {
	if e.request.Protocol == message.HTTP11 {
		e.informational(&message.Response{Status: statusContinue, Length: message.Unknown})
	}
}

func (e *exchange) informational(r *message.Response) {
	head, err := wire.AppendResponseHead(nil, r, wire.Framing{})
	if err != nil || !e.out.enter(e.client.conn.Executor()) {
		return // what cannot be written is of no use to the client
	}
	defer e.out.leave()
	_, _ = e.send(head, defaultIdle) // the response's own head tells of a broken connection
}
