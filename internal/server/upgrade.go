package server

import (
	"bytes"
	"fmt"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// upgrade answers 101 and lets goroutines join client and endpoint, on the
// socket that leaves the engine; the exchange goes with it. The result is that
// of run.
func (e *exchange) upgrade() bool {
	c := e.client
	e.content.finish()
	c.conn.WatchHangup(nil, false)
	e.out.close(c.conn.Executor())
	head, err := wire.AppendResponseHead(nil, &message.Response{Status: statusSwitchingProtocols, Fields: switchedFields(&e.Exchange), Length: message.Unknown}, wire.Framing{})
	if err == nil {
		_, err = e.send(head, stallOf(&e.Exchange))
	}
	if err != nil {
		e.abandon(pipeline.AsError(lostClient(&e.ctx, err)))
		return false
	}
	early := bytes.Clone(e.content.in.bytes())
	e.ctx.Leave()
	c.moved = true
	inner, err := c.conn.Detach()
	if err != nil {
		c.listener.drop(c)
		e.abandon(pipeline.NewError(pipeline.Internal, fmt.Errorf("the connection cannot be taken over: %w", err)))
		return false
	}
	t := &conn{Conn: inner, listener: c.listener}
	t.name, t.since = c.name, c.since
	t.busy.Store(true)
	t.active.Store(true)
	t.tunnel.Store(true)
	t.stall.Store(int64(stallOf(&e.Exchange)))
	end := func(cause error) { e.ctx.Cancel(cause) }
	t.end.Store(&end)
	c.exchange.Store(nil)
	c.listener.replace(c, t)
	go e.tunnel(t, early)
	return false
}

// abandon ends an exchange whose upgrade came to nothing.
func (e *exchange) abandon(why *pipeline.Error) {
	e.client.listener.dispose(&e.Exchange)
	e.note(why)
	e.over()
}

// tunnel is the rest of the exchange.
func (e *exchange) tunnel(t *conn, early []byte) {
	p := &pair{ctx: &e.ctx, listener: t.listener, client: t, tunnel: e.Response.Tunnel}
	if err := p.join(bytes.NewReader(early)); err != nil {
		e.note(err)
	}
	e.BytesIn, e.BytesOut = p.in.Load(), p.out.Load()
	t.end.Store(nil)
	t.active.Store(false)
	e.ctx.Cancel(nil)
	t.kill(false)
	t.listener.done(&e.Exchange)
	_ = t.Close() // it is
}
