package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWireRequestBodies refuses what is no chunked body (RFC 9112 7.1). The
// head was sound, so the endpoint may have got it, with what was right of the
// body; but never a whole request.
func TestWireRequestBodies(t *testing.T) {
	g := newWireGroup(t)
	for _, test := range []wireRefusal{
		// Sizes.
		{"a size of 17 digits", "00000000000000001\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size of 40 zeros", strings.Repeat("0", 40) + "1\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a last chunk of 17 zeros", strings.Repeat("0", 17) + "\r\n\r\n", 400, "bad_request"},
		{"2 to the 64 and 1", "10000000000000001\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"2 to the 64 less 1", "ffffffffffffffff\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"2 to the 63", "8000000000000000\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"2 to the 68 and 1", "100000000000000001\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size with 0x", "0x1\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size with a minus", "-1\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size with a plus", "+1\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size behind a space", " 1\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size behind a tab", "\t1\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size before a space", "1 \r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size, a space and an extension", "1 ;x\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size before a tab", "1\t\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size of letters", "g\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size in quotes", "\"1\"\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size with an underscore", "1_0\r\n0123456789abcdef\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size with a point", "1.0\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size with a comma", "1,1\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size with a NUL", "1\x00\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a size in other digits", "\xd9\xa1\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"no size", "\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"no size but an extension", ";x\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a second size that is none", "1\r\na\r\nx\r\n0\r\n\r\n", 400, "bad_request"},
		{"a second size that is empty", "1\r\na\r\n\r\n0\r\n\r\n", 400, "bad_request"},

		// Line ends.
		{"a bare LF behind the size", "1\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a bare CR behind the size", "1\ra\r\n0\r\n\r\n", 400, "bad_request"},
		{"two CR behind the size", "1\r\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a bare LF behind the chunk", "1\r\na\n0\r\n\r\n", 400, "bad_request"},
		{"a bare CR behind the chunk", "1\r\na\r0\r\n\r\n", 400, "bad_request"},
		{"two bytes for the line end behind the chunk", "1\r\naXX0\r\n\r\n", 400, "bad_request"},
		{"a chunk that is longer", "1\r\nabc\r\n0\r\n\r\n", 400, "bad_request"},
		{"a chunk that is shorter", "3\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a bare LF behind the last size", "0\n\r\n", 400, "bad_request"},
		{"a bare LF for the empty line", "0\r\n\n", 400, "bad_request"},
		{"a bare CR for the empty line", "0\r\n\r", 400, "bad_request"},

		// Extensions.
		{"a bare LF in an extension", "1;a\nb\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a bare CR in an extension", "1;a\rb\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a NUL in an extension", "1;a\x00\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a bare LF in a quoted extension", "1;a=\"\n\"\r\na\r\n0\r\n\r\n", 400, "bad_request"},
		{"a bare LF in the last extension", "0;a\n\r\n", 400, "bad_request"},
		{"a long extension", "1;" + strings.Repeat("x", 5000) + "\r\na\r\n0\r\n\r\n", 431, "header_too_large"},
		{"many extensions", strings.Repeat("1;"+strings.Repeat("x", 100)+"\r\na\r\n", 45) + "0\r\n\r\n", 431, "header_too_large"},

		// Trailers.
		{"no colon in a trailer", "0\r\nX\r\n\r\n", 400, "bad_request"},
		{"a request in the trailer", "0\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_request"},
		{"a space before the colon of a trailer", "0\r\nX : y\r\n\r\n", 400, "bad_request"},
		{"a folded trailer", "0\r\nX: y\r\n z\r\n\r\n", 400, "bad_request"},
		{"a bare LF in a trailer", "0\r\nX: y\nZ: y\r\n\r\n", 400, "bad_request"},
		{"a bare LF behind a trailer", "0\r\nX: y\n\r\n", 400, "bad_request"},
		{"a bare CR in a trailer", "0\r\nX: y\rz\r\n\r\n", 400, "bad_request"},
		{"a NUL in a trailer", "0\r\nX: \x00\r\n\r\n", 400, "bad_request"},
		{"a control in a forbidden trailer", "0\r\nContent-Length: \x01\r\n\r\n", 400, "bad_request"},
		{"a trailer without a name", "0\r\n: y\r\n\r\n", 400, "bad_request"},
		{"a long trailer", "0\r\nX: " + strings.Repeat("y", 5000) + "\r\n\r\n", 431, "header_too_large"},
		{"many trailers", "0\r\n" + strings.Repeat("X: y\r\n", 45) + "\r\n", 431, "header_too_large"},
	} {
		for _, how := range []string{"", ", dripped"} {
			t.Run(test.name+how, func(t *testing.T) {
				in := wireChunked(test.in) + wireMarker
				c := g.dial(g.next())
				switch {
				case how == "":
					c.send(in)
				case len(in) > 1000:
					t.Skip("too long for it")
				default:
					c.drip(in)
				}
				g.refused(t, c, "POST", test.status, test.word)
				g.cut(t, c, "POST /{n} HTTP/1.1\nTransfer-Encoding: chunked", test.in)
			})
		}
	}
	g.finish(t)
}

// cut checks that at most a beginning of a request has reached the endpoint,
// and that its connection is over then. body is what the client sent of it.
func (g *wireGroup) cut(t *testing.T, c *wireClient, head, body string) {
	t.Helper()
	arrivals := g.endpoint.settled(t, c.number)
	if len(arrivals) > 1 {
		t.Errorf("%d requests arrived", len(arrivals))
	}
	for _, m := range arrivals {
		if payload := strings.Repeat("a", len(m.body)); m.whole || m.body != payload && !strings.Contains(body, m.body) || len(m.trailer) > 0 {
			t.Errorf("this arrived, whole: %v: %q", m.whole, m.text())
		}
		if m.line == "" { // not even the head
			continue
		}
		m.take("Host")
		for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-ID", "Via"} {
			m.take(name)
		}
		m.body = ""
		if diff := cmp.Diff(wireFill(head, c.number), m.text()); diff != "" {
			t.Errorf("the head arrived so (-want +got):\n%s", diff)
		}
	}
}
