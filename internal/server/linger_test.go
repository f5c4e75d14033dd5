package server_test

import (
	"testing"

	"sluice/internal/pipeline"
)

// What a client sends after the answer is no reason for a reset, which may take
// the answer away, but where the client had said that it sends nothing more.
func TestLateBytes(t *testing.T) {
	ofEngine(t, "net/http does not linger")
	for name, request := range map[string]string{
		"HTTP/1.0":          "GET / HTTP/1.0\r\n\r\n",
		"HTTP/1.0, a body":  "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc",
		"a handler's close": get("/close"),
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(x *pipeline.Exchange) error {
				x.Response = reply(200, "answer")
				if x.Request.Path == "/close" {
					x.Response.Fields.Add("Connection", "close")
				}
				return nil
			})
			c := f.dial().send(request)
			if response, body := c.answer("GET"); body != "answer" || !response.Close {
				t.Errorf("%q, closes: %v", body, response.Close)
			}
			f.next(t)
			for range 3 {
				c.send("\r\n")
			}
			if rest := c.rest(); rest != "" {
				t.Errorf("then came %q", rest)
			}
		})
	}
}
