package server

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// extended is the protocol that an extended CONNECT asks for (RFC 8441 4), or "".
func extended(r *http.Request) string {
	if protocol := r.Header[":protocol"]; r.Method == http.MethodConnect && len(protocol) == 1 {
		return protocol[0]
	}
	return ""
}

// asUpgrade makes an extended CONNECT for a WebSocket the GET that asks for the
// same in HTTP/1.1 (RFC 8441 5, RFC 6455 4.1), so that nothing behind the server
// need know the difference.
func asUpgrade(request *message.Request) {
	request.Method = http.MethodGet
	request.Fields.Delete(":protocol")
	request.Fields.Put(message.Connection, "Upgrade")
	request.Fields.Put(message.Upgrade, "websocket")
	var key [16]byte
	_, _ = rand.Read(key[:]) // never fails
	request.Fields.Delete("Sec-WebSocket-Key")
	request.Fields.Add("Sec-WebSocket-Key", base64.StdEncoding.EncodeToString(key[:]))
}

// streamTunnel answers 200 and joins the stream with the endpoint's tunnel.
func (t *turn) streamTunnel() (cut bool) {
	r := t.x.Response
	h := t.w.Header()
	for i := range r.Fields {
		field := &r.Fields[i]
		if passes(field) && field.ID != message.XRequestID && !strings.EqualFold(field.Name, "Sec-WebSocket-Accept") {
			h[field.Name] = append(h[field.Name], field.Value)
		}
	}
	t.x.Identify()
	h[message.XRequestID.String()] = []string{t.x.ID}
	t.out.Lock()
	t.sent = true
	t.w.WriteHeader(http.StatusOK)
	t.out.Unlock()
	if err := t.rc.Flush(); err != nil {
		_ = r.Tunnel.Close() // the error at hand is the one to tell
		t.note(t.lost(err))
		return true
	}
	p := &pair{ctx: t.ctx, listener: t.listener, client: &stream{turn: t, stall: stallOf(t.x)}, tunnel: r.Tunnel}
	err := p.join(strings.NewReader(""))
	if err != nil {
		t.note(err)
	}
	t.x.BytesIn, t.x.BytesOut = p.in.Load(), p.out.Load()
	return err != nil
}

// stream is the client's end of a tunnel within a connection of HTTP/2.
type stream struct {
	*turn
	stall time.Duration
}

var _ tunnelClient = (*stream)(nil)

func (s *stream) source() io.Reader { return s.r.Body }

// taking does nothing: a write is of a piece so small that it takes it or waits.
func (s *stream) taking(func()) {}

// Write sends p at once.
func (s *stream) Write(p []byte) (int, error) {
	s.allow(s.stall, time.Time{})
	n, err := s.w.Write(p)
	if err == nil {
		err = s.rc.Flush()
	}
	return n, err
}

// closeWrite lets the client say its last words: a stream whose handler returns
// has ended both ways.
func (s *stream) closeWrite() error {
	return s.rc.SetReadDeadline(time.Now().Add(s.listener.limits.linger))
}

func (s *stream) part() { _ = s.closeWrite() } // fails on an ended stream only

// kill ends the reading; the stream ends with its handler.
func (s *stream) kill(bool) { _ = s.rc.SetReadDeadline(past()) } // fails on an ended stream only

func (s *stream) linger() {
	if s.closeWrite() == nil {
		_, _ = io.CopyN(io.Discard, s.r.Body, lingerBytes) // any end will do
	}
}

// refuseExtended is what a CONNECT gets that asks for something else than a
// WebSocket.
func refuseExtended(protocol string) error {
	e := pipeline.NewError(pipeline.NotImplemented, fmt.Errorf("CONNECT for the protocol %q", protocol))
	e.Detail = "Only WebSocket can be asked for with CONNECT."
	return e
}

// errNotSwitched is a good answer that is no tunnel, which a client that has sent
// a CONNECT would take for one.
var errNotSwitched = errors.New("the endpoint did not change the protocol")
