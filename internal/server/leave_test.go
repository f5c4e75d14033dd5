package server_test

import (
	"testing"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// TestLeavingWithAnUnreadBody ends an exchange that waits for something else as its client
// leaves, whatever of the body has come.
func TestLeavingWithAnUnreadBody(t *testing.T) {
	ofEngine(t, "net/http looks only once the body is read")
	for name, raw := range map[string]string{
		"none of it":         post("Content-Length: 6\r\n", ""),
		"part":               post("Content-Length: 6\r\n", "123"),
		"whole":              post("Content-Length: 6\r\n", "123456"),
		"chunks, none of it": post(chunkedField, ""),
		"chunks, part":       post(chunkedField, "3\r\n123\r\n"),
		"chunks, whole":      post(chunkedField, "3\r\n123\r\n0\r\n\r\n"),
		"not asked for":      post("Content-Length: 6\r\nExpect: 100-continue\r\n", ""),
	} {
		t.Run(name, func(t *testing.T) {
			for _, serve := range []bool{false, true} {
				waiting := make(chan struct{})
				f := start(t, func(x *pipeline.Exchange) error {
					close(waiting)
					return canceled(x)
				}, func(m *model.Listener) { m.HalfClose = serve })
				c := f.dial().send(raw)
				<-waiting
				if serve {
					reset(t, c) // a closed writing side is not the end
				} else {
					c.closeWrite()
				}
				if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed {
					t.Errorf("half_close serve %v: it ended with %v", serve, x.Err)
				}
			}
		})
	}
}

// TestHalfCloseWithAnUnreadBody serves who has sent all and closed its writing side, where
// that is wanted, also while the body waits.
func TestHalfCloseWithAnUnreadBody(t *testing.T) {
	ofEngine(t, "net/http looks only once the body is read")
	proceed := make(chan struct{})
	waiting := make(chan struct{})
	f := start(t, func(x *pipeline.Exchange) error {
		close(waiting)
		x.Wait(func() { <-proceed })
		return swallow(x)
	}, halfClose)
	c := f.dial().send(post("Content-Length: 3\r\n", "123"))
	c.closeWrite()
	<-waiting
	close(proceed)
	if response, body := c.answer("POST"); response.StatusCode != 200 || body != "3" {
		t.Errorf("%d %q", response.StatusCode, body)
	}
	c.ends()
}
