package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"sluice/internal/message"
)

// tunnel answers 101 and joins client and endpoint. The connection is the turn's
// from here on.
func (t *turn) tunnel() (cut bool) {
	r := t.x.Response
	_, buffered, err := t.rc.Hijack()
	if err != nil {
		_ = r.Tunnel.Close() // the error at hand is the one to tell
		t.note(fmt.Errorf("the connection cannot be taken over: %w", err))
		return true
	}
	t.hijacked = true
	defer t.c.kill(false)
	t.c.tunnel.Store(true)
	t.stall()
	early := make([]byte, buffered.Reader.Buffered())
	if _, err := io.ReadFull(buffered, early); err != nil {
		panic("BUG: buffered bytes cannot be read: " + err.Error())
	}
	t.out.Lock()
	t.sent = true
	t.out.Unlock()
	fields := switchedFields(t.x)
	fields.DeleteFunc(func(field message.Field) bool { return !valid(&field) })
	if _, err := t.c.Write(appendHead(nil, http.StatusSwitchingProtocols, fields)); err != nil {
		_ = r.Tunnel.Close() // the error at hand is the one to tell
		t.note(t.lost(err))
		return false
	}
	p := &pair{ctx: t.ctx, listener: t.listener, client: t.c, tunnel: r.Tunnel}
	if err := p.join(bytes.NewReader(early)); err != nil {
		t.note(err)
	}
	t.x.BytesIn, t.x.BytesOut = p.in.Load(), p.out.Load()
	return false
}
