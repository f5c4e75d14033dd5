package server_test

import (
	"testing"
)

// A request that came together with the one before is as busy as any other when
// the listener ends.
func TestAPipelinedRequestOutlivesTheListener(t *testing.T) {
	h := newHeld()
	f := start(t, h.serve)
	c := f.dial().send(get("/first") + get("/slow"))
	c.answer("GET")
	<-h.begun
	f.listener.Release()
	close(h.proceed)
	if response, body := c.answer("GET"); body != "/slow" || !response.Close {
		t.Errorf("%q, closes: %v", body, response.Close)
	}
}
