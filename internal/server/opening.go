package server

import (
	"bytes"
	"errors"
	"os"
	"time"

	"sluice/internal/certificate"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// security is what a connection over TLS has besides.
type security struct {
	tls         *netloop.TLS
	certificate *message.ClientCertificate // the client's, verified; nil: none
}

// open does what comes before the first request: the PROXY header, the handshake
// of TLS, and the choice between HTTP/1.1 and HTTP/2. false: the connection does
// not go on here.
func (c *client) open(in *input) bool {
	m := c.listener.model.Load()
	var deadline time.Time
	if timeout := m.Timeouts.ReadHeader; timeout > 0 {
		deadline = time.Now().Add(timeout)
		in.conn.SetReadDeadline(deadline)
		in.conn.SetWriteDeadline(deadline)
	}
	if m.ProxyProtocol && !c.introduced(in, m) {
		return false
	}
	if in.buffered() == 0 && in.fill() != nil {
		return false // it has said nothing
	}
	if m.TLS != nil && !c.handshake(in, m, deadline) {
		return false
	}
	switch many, err := c.multiplexes(in, m); {
	case many:
		c.multiplex(in, m)
		return false
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.late(in, m)
		return false
	}
	if m.Timeouts.ReadHeader > 0 {
		in.conn.SetReadDeadline(time.Time{})
		in.conn.SetWriteDeadline(time.Time{})
	}
	c.opened = true
	return true
}

// unopened notes a connection that ended before its first request, and says why
// to those who look for it: anybody can bring this about at any rate.
func (c *client) unopened(why error) {
	l := c.listener
	l.failed.Add(1)
	l.log.Debug("a connection did not come to a request", "listener", c.name, "peer", c.peer, "error", why)
}

// handshake puts TLS over the connection.
func (c *client) handshake(in *input, m *model.Listener, deadline time.Time) bool {
	if first := in.bytes()[0]; 'A' <= first && first <= 'Z' {
		c.misdirected(in)
		return false
	}
	t := netloop.ServeTLS(c.conn, bytes.Clone(in.bytes()), c.listener.handshake.Config())
	in.use(in.buffered())
	c.conn, in.conn = t, t
	if err := t.Handshake(deadline); err != nil {
		c.unopened(err)
		return false
	}
	c.security = &security{tls: t}
	if m.TLS.ClientAuth.Mode != model.ClientAuthNone {
		c.security.certificate = certificate.Client(t.ConnectionState())
		c.verified.Store(c.security.certificate != nil)
	}
	return t.ConnectionState().NegotiatedProtocol != certificate.ACMEProtocol // else the handshake is all
}

// The names of protocols in TLS (RFC 7301).
const (
	alpnH1 = "http/1.1"
	alpnH2 = "h2"
)

// negotiable is what clients over TCP may choose from, the preferred one first.
func negotiable(m *model.Listener) (protocols []string) {
	if m.Speaks(model.H2) {
		protocols = append(protocols, alpnH2)
	}
	if m.Speaks(model.H1) {
		protocols = append(protocols, alpnH1)
	}
	return protocols
}

// misdirected answers a client that speaks HTTP without TLS where only TLS is
// spoken. It is answered in its own language.
func (c *client) misdirected(in *input) {
	e := newExchange(c, in)
	if err := e.readHead(in); err != nil {
		e.end(err)
		return
	}
	refusal := pipeline.NewError(pipeline.BadRequest, errors.New("HTTP without TLS"))
	refusal.Detail = "This listener speaks HTTPS: the request came without TLS."
	e.refuse(refusal)
}

// preface is what a client sends first that speaks HTTP/2 (RFC 9113 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// multiplexes tells whether the client speaks HTTP/2: it said so in the
// handshake or, without TLS, by beginning with the preface. Where nothing else is
// spoken, one that begins otherwise is refused in HTTP/2 (RFC 9113 3.4), unless it
// speaks HTTP/1 and would not understand. Where both are, so is a first line that
// has nothing of HTTP/1.
// An error is that of reading, which tells again what it is but that time is over.
func (c *client) multiplexes(in *input, m *model.Listener) (bool, error) {
	if c.security != nil {
		return c.security.tls.ConnectionState().NegotiatedProtocol == alpnH2, nil
	}
	if !m.Speaks(model.H2) {
		return false, nil
	}
	in.since = time.Now()
	for begins(in.bytes(), preface) {
		if in.buffered() >= len(preface) {
			return true, nil
		}
		if err := in.fill(); err != nil {
			return false, err
		}
	}
	if m.Speaks(model.H1) {
		return foreign(in.bytes()), nil
	}
	first, err := beginsHTTP1(in)
	return !first, err
}

// late refuses a client that took as long for the beginning of its first request
// as it may for the whole.
func (c *client) late(in *input, m *model.Listener) {
	e := newExchange(c, in)
	e.Listener, e.Start = m, in.since
	e.Init(&e.ctx, c.peerText)
	e.end(os.ErrDeadlineExceeded)
}

// mostOfLine is how much of a first line is waited for.
const mostOfLine = 4 << 10

// beginsHTTP1 tells whether the first line is that of a request of HTTP/1, or
// may be.
func beginsHTTP1(in *input) (bool, error) {
	for {
		line, _, whole := bytes.Cut(in.bytes(), []byte("\n"))
		if whole {
			return bytes.Contains(line, []byte(" HTTP/1.")), nil
		}
		if len(line) >= mostOfLine {
			return true, nil // reading tells what it is
		}
		if err := in.fill(); err != nil {
			return true, err
		}
	}
}

// foreign tells whether a first line that is there is that of a broken preface: three
// words, none of which is a version of HTTP, nor the second a target (RFC 9112 3). Any
// other is for the reading of requests to take or to refuse.
func foreign(data []byte) bool {
	line, _, whole := bytes.Cut(data, []byte("\n"))
	words := bytes.Fields(line)
	if !whole || len(words) != 3 {
		return false
	}
	return !bytes.ContainsAny(words[1], "/*:") && !bytes.Contains(bytes.ToUpper(line), []byte("HTTP"))
}

// begins tells whether data begins like text, as far as it goes.
func begins(data []byte, text string) bool {
	n := min(len(data), len(text))
	return string(data[:n]) == text[:n]
}
