package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// switched takes a 101: the connection leaves the engine and becomes a tunnel.
func (l *link) switched() error {
	response := &l.try.Response
	switch {
	case !response.Fields.Has(message.Upgrade), !response.Fields.HasToken(message.Connection, "upgrade"):
		return pipeline.NewError(pipeline.UpstreamProtocol, errors.New("101 without Upgrade"))
	case !l.try.Request.Fields.Has(message.Upgrade):
		return pipeline.NewError(pipeline.UpstreamProtocol, errors.New("101 without being asked"))
	}
	if !l.settleRequest() {
		return pipeline.NewError(pipeline.UpstreamProtocol, errors.New("101 before the end of the request"))
	}
	rest := append([]byte(nil), l.data[l.from:l.to]...)
	ctx := l.ctx
	l.unguard()
	raw, err := l.conn.Detach()
	if err != nil && scarce(err) {
		return pipeline.NewError(pipeline.Overloaded, err)
	}
	if err != nil {
		return err
	}
	conn, ok := raw.(stream)
	if !ok {
		panic("BUG: a stream socket does not close by halves")
	}
	p := &passage{link: l, conn: conn, rest: rest, looker: looker{watch: l.try.Watch, raw: socketOf(conn)}}
	p.ctx, p.stop = l.try.Watch.Context(ctx)
	p.unwatch = context.AfterFunc(p.ctx, func() { _ = p.conn.Close() })
	l.end()
	response.Tunnel = p
	return nil
}

// stream is a connection whose directions end one by one.
type stream interface {
	net.Conn
	CloseWrite() error
}

// socketOf is the socket of a connection that was just detached, encrypted or not.
func socketOf(conn net.Conn) syscall.RawConn {
	if secure, ok := conn.(*netloop.DetachedTLS); ok {
		conn = secure.NetConn()
	}
	system, ok := conn.(syscall.Conn)
	if !ok {
		panic("BUG: a stream socket has no descriptor")
	}
	socket, err := system.SyscallConn()
	if err != nil {
		panic("BUG: a socket that was just detached is closed: " + err.Error())
	}
	return socket
}

// passage is the endpoint's side of an upgraded connection. It is for
// goroutines.
type passage struct {
	link    *link // for its place in the pool
	conn    stream
	looker  looker
	rest    []byte          // what came behind the head
	ctx     context.Context // ends the tunnel
	stop    context.CancelCauseFunc
	unwatch func() bool
	closing sync.Once
}

// Read reads from the endpoint.
func (p *passage) Read(b []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	n, err := p.conn.Read(b)
	return n, p.failure(err)
}

// Write writes to the endpoint.
func (p *passage) Write(b []byte) (int, error) {
	p.looker.begin()
	n, err := p.conn.Write(b)
	return n, p.failure(err)
}

func (p *passage) failure(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case p.ctx.Err() != nil:
		return ended(p.ctx)
	}
	return pipeline.NewError(pipeline.UpstreamReset, err)
}

// CloseWrite ends the direction to the endpoint.
func (p *passage) CloseWrite() error { return p.failure(p.conn.CloseWrite()) }

// Close ends both directions, and the attempt.
func (p *passage) Close() error {
	var err error
	p.closing.Do(func() {
		p.unwatch()
		p.looker.end()
		err = p.conn.Close()
		p.stop(nil)
		p.link.told()
		p.link.pool.leave()
	})
	if errors.Is(err, net.ErrClosed) { // the end of its context closed it
		return nil
	}
	return err
}
