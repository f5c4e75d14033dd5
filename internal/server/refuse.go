package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

const (
	// maxRefusals bounds the refusals that wait for their clients to read the
	// answer; past it connections are closed behind it.
	maxRefusals = 256
	// refusalTime is how long one may take.
	refusalTime = time.Second
)

// refusal is the exchange of a connection past limits.connections, which is over.
func (l *Listener) refusal(peer netip.AddrPort, m *model.Listener, protocol message.Protocol) *pipeline.Exchange {
	l.refused.Add(1)
	request := &message.Request{Protocol: protocol, Scheme: "http"}
	if m.TLS != nil {
		request.Scheme = "https"
	}
	x := pipeline.NewExchange(context.Background(), request, m, peer, time.Now())
	refusal := pipeline.NewError(pipeline.Overloaded, errors.New("limits.connections is reached"))
	refusal.Detail = "Too many connections."
	refusal.Close = true
	pipeline.Fail(x, refusal)
	return x
}

// refuse answers 503 on a connection of peer past limits.connections, without
// reading a request, and closes it; with TLS it only closes it. The connection may be broken already, and
// then has no peer by itself. It does not wait.
func (l *Listener) refuse(inner net.Conn, peer netip.AddrPort, m *model.Listener) {
	x := l.refusal(peer, m, message.HTTP11)
	if m.TLS != nil { // a handshake for this would cost what there is too much of
		_ = inner.Close()
		l.done(x)
		return
	}
	select {
	case l.refusals <- struct{}{}:
	default:
		dismiss(inner, x)
		l.done(x)
		return
	}
	l.mu.Lock()
	l.tasks++
	l.mu.Unlock()
	go func() {
		defer l.leave()
		defer func() { <-l.refusals }()
		defer func() { _ = inner.Close() }()
		written := answer(inner, x)
		l.done(x)
		if half, ok := inner.(halfCloser); written && ok && half.CloseWrite() == nil {
			_, _ = io.CopyN(io.Discard, inner, keepAliveBody) // a moment for the client to read
		}
	}()
}

// answer writes a response that the gateway made itself, and tells whether it
// could.
func answer(inner net.Conn, x *pipeline.Exchange) bool {
	whole, body := answerOf(x)
	if inner.SetDeadline(time.Now().Add(refusalTime)) != nil {
		return false
	}
	n, err := inner.Write(whole)
	x.BytesOut = max(0, int64(n-body))
	return err == nil
}

// dismiss is answer where nothing may be waited for, with the end of the
// connection. The system's queue of a new one is empty, and takes the response.
func dismiss(inner net.Conn, x *pipeline.Exchange) {
	defer func() { _ = inner.Close() }()
	whole, body := answerOf(x)
	_ = control(inner, func(descriptor uintptr) { // else it is closed without
		x.BytesOut = max(0, int64(netloop.Dismiss(int(descriptor), whole)-body))
	})
}

// answerOf is such a response, whose body begins at the index.
func answerOf(x *pipeline.Exchange) (whole []byte, at int) {
	body, err := io.ReadAll(x.Response.Body)
	if err != nil {
		panic("BUG: a problem document cannot be read: " + err.Error())
	}
	fields := x.Response.Fields.Clone()
	fields.Put(message.ContentLength, decimal(int64(len(body))))
	fields.Put(message.Date, date(time.Now()))
	head := appendHead(nil, x.Response.Status, fields)
	return append(head, body...), len(head)
}

// control calls f with the descriptor of a connection; without one it fails.
func control(inner net.Conn, f func(descriptor uintptr)) error {
	system, ok := inner.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(f)
}
