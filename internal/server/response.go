package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// respond writes the exchange's response. cut says that it is not whole, and
// that the client must see so.
func (t *turn) respond() (cut bool) {
	defer func() {
		if value := recover(); value != nil {
			t.note(t.recovered(value))
			if t.c != nil {
				t.c.reset() // a plain close may look like the end of the body
			}
			cut = true
		}
	}()
	if fault := t.misfit(); fault != nil {
		t.fail(fault)
	}
	if t.failed && t.x.Err.Word == pipeline.ClientClosed {
		return true // nobody reads
	}
	switch {
	case t.x.Response.Tunnel != nil && t.extended != "":
		return t.streamTunnel()
	case t.x.Response.Tunnel != nil:
		return t.tunnel()
	}
	return t.write()
}

// misfit tells why the response cannot be written as it is.
func (t *turn) misfit() error {
	r, err := t.x.Response, misfit(t.x.Response)
	switch {
	case err != nil:
		return err
	case r.Tunnel == nil && t.extended != "" && r.Status < 300:
		return pipeline.NewError(pipeline.UpstreamProtocol, errNotSwitched)
	case r.Tunnel == nil, t.extended != "":
		return nil
	case t.c == nil || t.r.ProtoMajor != 1 || t.r.ProtoMinor == 0:
		return pipeline.NewError(pipeline.UpstreamProtocol, fmt.Errorf("an upgrade on %s", t.x.Request.Protocol))
	case t.body != nil && !t.body.complete():
		return pipeline.NewError(pipeline.UpstreamProtocol, errEarlyUpgrade)
	}
	return nil
}

// write sends head, body and trailers. The head goes out at once, and each part
// of the body as it comes: nothing is held back for more.
func (t *turn) write() (cut bool) {
	r := t.x.Response
	defer func() { _ = r.Close() }() // read to its end, or told already
	if end := until(t.x, t.failed); t.c != nil && !end.IsZero() {
		t.c.until.Store(&end)
	}
	t.stall()
	withBody := r.Body != nil && allowsBody(t.r.Method, r.Status) && r.Length != 0
	t.head(withBody)
	if !withBody && t.r.ProtoMajor > 1 {
		return false // the stream ends with the head, as a call has to that fails without a message
	}
	if err := t.rc.Flush(); err != nil {
		t.note(t.lost(err))
		return true
	}
	if !withBody {
		return false
	}
	if err := t.copyBody(); err != nil {
		t.note(err)
		if t.c != nil && r.Length < 0 && t.r.ProtoMajor == 1 && t.r.ProtoMinor == 0 {
			t.c.reset() // the body ends with the connection: a plain close would look like its end
		}
		return true
	}
	if t.trailing() {
		t.trailers(r.Trailer())
	}
	return false
}

// stall bounds how long the client may take nothing of the response.
func (t *turn) stall() {
	if t.c != nil {
		t.c.stall.Store(int64(stallOf(t.x)))
		return
	}
	t.allow(stallOf(t.x), until(t.x, t.failed))
}

// allow gives a client of many exchanges so long to take what is written next (0:
// for ever), and at most until end (zero: for ever).
func (t *turn) allow(stall time.Duration, end time.Time) {
	if at := deadline(time.Now(), stall, end); t.c == nil && !at.IsZero() {
		_ = t.rc.SetWriteDeadline(at) // fails on an ended stream only
	}
}

// copyBody streams the body to the client.
func (t *turn) copyBody() error {
	var client io.Writer = t.w
	buffer := t.listener.bodies.get()
	defer t.listener.bodies.put(buffer)
	r := t.x.Response
	left := r.Length
	for {
		n, err := r.Body.Read(buffer[:])
		if r.Length >= 0 && int64(n) > left {
			n, err = int(left), errors.New("the body of the response is longer than its length")
		}
		if n > 0 {
			t.stall()
			left -= int64(n)
			written, lost := client.Write(buffer[:n])
			t.x.BytesOut += int64(written)
			if lost == nil {
				lost = t.rc.Flush()
			}
			if lost != nil {
				return t.lost(lost)
			}
		}
		switch {
		case errors.Is(err, io.EOF) && r.Length >= 0 && left > 0:
			return fmt.Errorf("the body of the response is shorter than its length: %w", io.ErrUnexpectedEOF)
		case errors.Is(err, io.EOF), err != nil && left == 0 && t.unneeded(err):
			return nil
		case err != nil:
			return err
		}
	}
}

// unneeded tells whether an error of a body of which the client has the whole
// length comes of the end of the exchange, or of its request: over HTTP/2 the
// response has ended for the client, which may leave while the endpoint's end,
// which comes behind its trailers, is still waited for.
func (t *turn) unneeded(err error) bool {
	return t.ctx.Err() != nil || pipeline.AsError(t.blame(err)).Word == pipeline.ClientClosed
}

// head gives net/http the head of the response.
func (t *turn) head(withBody bool) {
	t.out.Lock()
	defer t.out.Unlock()
	t.sent = true
	r := t.x.Response
	t.closing = t.closes()
	h := t.w.Header()
	if r.Status != http.StatusNotModified {
		h["Content-Type"] = nil // no sniffing
	}
	alternative := ""
	if t.r.TLS != nil && t.r.ProtoMajor == 2 {
		alternative = t.listener.altSvc()
	}
	for i := range r.Fields {
		if field := &r.Fields[i]; passes(field) && field.ID != message.XRequestID && (field.ID != message.AltSvc || alternative == "") && (field.ID != message.Trailer || withBody && t.trailing()) {
			name := headerName(field, r.Status)
			h[name] = append(h[name], field.Value)
		}
	}
	t.x.Identify()
	h[message.XRequestID.String()] = []string{t.x.ID}
	if alternative != "" {
		h[message.AltSvc.String()] = []string{alternative}
	}
	if length, told := t.contentLength(withBody); told {
		h[headerName(&message.Field{Name: "Content-Length", ID: message.ContentLength}, r.Status)] = []string{decimal(length)}
	}
	if t.r.ProtoMajor == 1 {
		t.connection(h)
	}
	t.w.WriteHeader(r.Status)
}

// connection sets what is about the connection. A 426 has to tell what to
// upgrade to (RFC 9110 15.5.22), so there Upgrade goes to the client.
func (t *turn) connection(h http.Header) {
	if t.closing {
		h["Connection"] = []string{"close"} // net/http looks at the first
	}
	upgrade := t.x.Response.Fields.Get(message.Upgrade)
	if t.x.Response.Status == http.StatusUpgradeRequired && upgrade != "" && httpguts.ValidHeaderFieldValue(upgrade) {
		h["Upgrade"] = []string{upgrade}
		h["Connection"] = append(h["Connection"], "Upgrade")
	}
}

// contentLength is what Content-Length tells (RFC 9110 8.6), if it is sent.
func (t *turn) contentLength(withBody bool) (int64, bool) {
	r := t.x.Response
	switch {
	case r.Status == http.StatusNoContent:
		return 0, false
	case r.Status == http.StatusResetContent:
		return 0, true
	case r.Status == http.StatusNotModified, t.r.Method == http.MethodHead, withBody:
		return r.Length, r.Length >= 0
	}
	return 0, true
}

// closes tells whether the connection ends with this response, as far as that
// can be known before its body.
func (t *turn) closes() bool {
	switch {
	case t.c == nil:
		return false // such a connection ends by itself
	case t.generation.old.Load(), t.listener.ending.Load(), t.c != nil && t.c.last.Load():
		return true
	case t.x.Response.Fields.HasToken(message.Connection, "close"), t.failed && t.x.Err.Close:
		return true
	}
	return t.body != nil && (t.failed || t.body.abandoned()) && !t.body.complete() && !t.body.small()
}

// headerName is the key under which net/http takes a field. Names keep their
// spelling but where net/http looks for them itself. It drops some from a 304,
// which a gateway has to leave there (RFC 9110 15.4.5): a spelling that it does
// not look for saves them.
func headerName(field *message.Field, status int) string {
	switch field.ID {
	case message.ContentType, message.ContentLength:
		if status == http.StatusNotModified {
			return strings.ToLower(field.Name)
		}
		return field.ID.String()
	case message.ContentEncoding, message.Date, message.Trailer:
		return field.ID.String()
	}
	return field.Name
}

// passes tells whether a field of a response goes to the client: not those
// about the connection or the framing, which are the engine's, nor what would
// break the message.
func passes(field *message.Field) bool {
	switch field.ID {
	case message.Connection, message.KeepAlive, message.ProxyConnection, message.TransferEncoding, message.ContentLength, message.TE, message.Upgrade:
		return false
	}
	return valid(field)
}

func valid(field *message.Field) bool {
	return httpguts.ValidHeaderFieldName(field.Name) && httpguts.ValidHeaderFieldValue(field.Value)
}

// trailers hands net/http the trailer fields. The head is out, so its map is
// free for them: announced ones under their names, others with a prefix.
func (t *turn) trailers(fields message.Fields) {
	h := t.w.Header()
	clear(h)
	for i := range fields {
		field := &fields[i]
		if !valid(field) || !httpguts.ValidTrailerHeader(http.CanonicalHeaderKey(field.Name)) {
			continue
		}
		name := http.TrailerPrefix + field.Name
		if t.announced(field.Name) {
			name = http.CanonicalHeaderKey(field.Name)
		}
		h[name] = append(h[name], field.Value)
	}
}

// trailing tells whether trailers may follow the body; HTTP/1.0 has none.
func (t *turn) trailing() bool {
	return t.x.Response.Length < 0 && t.x.Response.Trailer != nil && t.r.ProtoAtLeast(1, 1)
}

func (t *turn) announced(trailer string) bool {
	return t.x.Response.Fields.HasToken(message.Trailer, trailer)
}

// Inform sends an informational response (RFC 9110 15.2), unless the response
// has begun. It may be called from any goroutine.
func (t *turn) Inform(status int, fields message.Fields) {
	t.out.Lock()
	defer t.out.Unlock()
	if t.sent || status < http.StatusProcessing || status > 199 {
		return
	}
	h := t.w.Header()
	for i := range fields {
		if passes(&fields[i]) {
			h[fields[i].Name] = append(h[fields[i].Name], fields[i].Value)
		}
	}
	t.w.WriteHeader(status)
	clear(h)
}

// proceed tells the client to send the body. net/http would do so by itself on
// the first read, but then an informational response could get between.
func (t *turn) proceed() {
	t.out.Lock()
	defer t.out.Unlock()
	if !t.sent {
		t.w.WriteHeader(http.StatusContinue)
	}
}

// appendHead appends the head of a response that net/http does not write.
func appendHead(b []byte, status int, fields message.Fields) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, message.Reason(status)...)
	b = append(b, "\r\n"...)
	for i := range fields {
		if valid(&fields[i]) {
			b = append(b, fields[i].Name...)
			b = append(b, ": "...)
			b = append(b, fields[i].Value...)
			b = append(b, "\r\n"...)
		}
	}
	return append(b, "\r\n"...)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func date(now time.Time) string { return now.UTC().Format(http.TimeFormat) }
