package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

const (
	// maxRefusals bounds the refusals under way at once; past it connections
	// are closed without an answer.
	maxRefusals = 256
	// refusalTime is how long one may take.
	refusalTime = time.Second
)

// refuse answers 503 on a connection of peer past limits.connections, without
// reading a request, and closes it. The connection may be broken already, and
// then has no peer by itself.
func (l *Listener) refuse(inner net.Conn, peer netip.AddrPort, m *model.Listener) {
	l.refused.Add(1)
	select {
	case l.refusals <- struct{}{}:
	default:
		_ = inner.Close()
		return
	}
	l.mu.Lock()
	l.tasks++
	l.mu.Unlock()
	go func() {
		defer l.leave()
		defer func() { <-l.refusals }()
		defer func() { _ = inner.Close() }()
		x := pipeline.NewExchange(context.Background(), &message.Request{Protocol: message.HTTP11, Scheme: "http"}, m, peer, time.Now())
		refusal := pipeline.NewError(pipeline.Overloaded, errors.New("limits.connections is reached"))
		refusal.Detail = "Too many connections."
		refusal.Close = true
		pipeline.Fail(x, refusal)
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
	body, err := io.ReadAll(x.Response.Body)
	if err != nil {
		panic("BUG: a problem document cannot be read: " + err.Error())
	}
	fields := x.Response.Fields.Clone()
	fields.Put(message.ContentLength, decimal(int64(len(body))))
	fields.Put(message.Date, date(time.Now()))
	if inner.SetDeadline(time.Now().Add(refusalTime)) != nil {
		return false
	}
	head := appendHead(nil, x.Response.Status, fields)
	n, err := inner.Write(append(head, body...))
	x.BytesOut = max(0, int64(n-len(head)))
	return err == nil
}
