package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// tunnel answers 101 and joins client and endpoint until both directions have
// ended, or one breaks. The connection is the turn's from here on.
func (t *turn) tunnel() (cut bool) {
	r := t.x.Response
	defer func() { _ = r.Tunnel.Close() }() // what matters was told by reading and writing
	_, buffered, err := t.rc.Hijack()
	if err != nil {
		t.note(fmt.Errorf("the connection cannot be taken over: %w", err))
		return true
	}
	t.hijacked = true
	t.listener.tunnels.Add(1)
	defer t.listener.tunnels.Add(-1)
	defer t.c.kill()
	t.c.tunnel.Store(true)
	t.stall()
	early := make([]byte, buffered.Reader.Buffered())
	if _, err := io.ReadFull(buffered, early); err != nil {
		panic("BUG: buffered bytes cannot be read: " + err.Error())
	}
	if _, err := t.c.Write(t.upgradeHead()); err != nil {
		t.note(t.lost(err))
		return false
	}
	p := &pair{turn: t, tunnel: r.Tunnel}
	upward := make(chan struct{})
	go func() {
		defer close(upward)
		p.up(early)
	}()
	p.down()
	<-upward
	t.x.BytesIn, t.x.BytesOut = p.in.Load(), p.out.Load()
	if p.err != nil {
		t.note(p.err)
	}
	return false
}

// upgradeHead is the head of the 101 (RFC 9110 7.8).
func (t *turn) upgradeHead() []byte {
	t.out.Lock()
	t.sent = true
	t.out.Unlock()
	protocol := t.x.Response.Fields.Get(message.Upgrade)
	if protocol == "" {
		protocol = t.x.Request.Fields.Get(message.Upgrade)
	}
	fields := t.x.Response.Fields.Clone()
	fields.DeleteFunc(func(field message.Field) bool { return !passes(&field) })
	fields.Put(message.Connection, "Upgrade")
	fields.Put(message.Upgrade, protocol)
	t.x.Identify()
	fields.Put(message.XRequestID, t.x.ID)
	return appendHead(nil, http.StatusSwitchingProtocols, fields)
}

// pair is the two directions of a tunnel.
type pair struct {
	*turn
	tunnel message.Tunnel
	in     atomic.Int64 // bytes from the client
	out    atomic.Int64 // bytes to the client

	upEnded, downEnded atomic.Bool // the direction came to its end in order
	once               sync.Once
	err                error // what broke the tunnel; read after both directions ended
}

// up carries what the client sends, first what net/http had read already.
func (p *pair) up(early []byte) {
	reading, err := p.pump(p.tunnel, io.MultiReader(bytes.NewReader(early), p.c.Conn), &p.in)
	if err == nil && reading == nil {
		p.upEnded.Store(true)
		err = p.tunnel.CloseWrite()
	}
	switch {
	case reading != nil:
		p.broken(p.lost(reading))
	case err != nil && p.downEnded.Load():
		p.broken(nil) // an endpoint that has said all may be gone
	case err != nil:
		p.broken(p.endpointError(err))
	}
}

// down carries what the endpoint sends.
func (p *pair) down() {
	reading, err := p.pump(p.c, p.tunnel, &p.out)
	if err == nil && reading == nil {
		p.downEnded.Store(true)
		err = p.c.closeWrite()
	}
	switch {
	case reading != nil:
		p.broken(p.endpointError(reading))
	case err != nil && p.upEnded.Load():
		p.broken(nil) // a client that has said all may be gone
	case err != nil:
		p.broken(p.lost(err))
	}
}

// pump copies until the end of src, which is no error.
func (p *pair) pump(dst io.Writer, src io.Reader, count *atomic.Int64) (reading, writing error) {
	buffer := p.listener.buffers.get()
	defer p.listener.buffers.put(buffer)
	for {
		n, err := src.Read(buffer[:])
		if n > 0 {
			written, err := dst.Write(buffer[:n])
			count.Add(int64(written))
			if err != nil {
				return nil, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		}
	}
}

// broken ends both directions. The first cause counts; the other direction's
// is a consequence.
func (p *pair) broken(err error) {
	p.once.Do(func() {
		p.err = err
		_ = p.tunnel.Close() // to wake whoever reads
		p.c.kill()
	})
}

// endpointError is what an error of the tunnel's other side means.
func (p *pair) endpointError(err error) error {
	var own *pipeline.Error
	switch cause := context.Cause(p.ctx); {
	case cause != nil:
		return cause
	case errors.As(err, &own):
		return own
	}
	return pipeline.NewError(pipeline.UpstreamReset, err)
}
