package server_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"sluice/internal/model"
)

// TestSilenceOverTLS closes connections that say nothing after the handshake, or
// begin a record and go no further: read_header bounds that as it does without TLS.
func TestSilenceOverTLS(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, text("ok"), a.over, func(m *model.Listener) { m.Timeouts.ReadHeader = 500 * time.Millisecond })
	for name, say := range map[string]func(raw net.Conn, c *client){
		"nothing":     func(net.Conn, *client) {},
		"a record":    func(raw net.Conn, _ *client) { _, _ = raw.Write([]byte{23, 3, 3}) },
		"half a head": func(_ net.Conn, c *client) { c.send("GET / HTTP/1.1\r\n") },
		"a request and a record": func(raw net.Conn, c *client) {
			c.send(get("/")).answer("GET")
			_, _ = raw.Write([]byte{23, 3, 3})
		},
	} {
		raw := f.dial()
		secure := tls.Client(raw.Conn, a.client())
		if err := secure.Handshake(); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, secure)
		say(raw.Conn, c)
		if name == "half a head" {
			if response, _ := c.answer("GET"); response.StatusCode != 408 {
				t.Errorf("%s: %d", name, response.StatusCode)
			}
		}
		c.ends()
	}
}

// TestSilenceOverTLSIsIdle lets nobody who has said nothing since the handshake
// hold up the end.
func TestSilenceOverTLSIsIdle(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, text("ok"), a.over)
	c := f.dialTLS(a.client())
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	if err := f.listener.Shutdown(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	c.ends()
}
