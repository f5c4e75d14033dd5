package e2e

import (
	"strings"
	"testing"
)

// TestWireRequestFields refuses what is no field line (RFC 9112 5), and too
// much of them.
func TestWireRequestFields(t *testing.T) {
	g := newWireGroup(t)
	g.refusals(t, []wireRefusal{
		// Names.
		{"a space before the colon", wireGet("X : a\r\n"), 400, "bad_request"},
		{"a tab before the colon", wireGet("X\t: a\r\n"), 400, "bad_request"},
		{"no colon", wireGet("abc\r\n"), 400, "bad_request"},
		{"no name", wireGet(": a\r\n"), 400, "bad_request"},
		{"a name with brackets", wireGet("X[0]: a\r\n"), 400, "bad_request"},
		{"a name with a slash", wireGet("X/Y: a\r\n"), 400, "bad_request"},
		{"a name with a space", wireGet("X Y: a\r\n"), 400, "bad_request"},
		{"a name in quotes", wireGet("\"X\": a\r\n"), 400, "bad_request"},
		{"a name with a NUL", wireGet("X\x00: a\r\n"), 400, "bad_request"},
		{"a name with a DEL", wireGet("X\x7f: a\r\n"), 400, "bad_request"},
		{"a name that is not ASCII", wireGet("X\xc3\xa9: a\r\n"), 400, "bad_request"},
		{"a name with a bare CR", wireGet("X\rY: a\r\n"), 400, "bad_request"},
		{"a name that ends with a bare LF", wireGet("X\n: a\r\n"), 400, "bad_request"},
		{"a second request line", wireGet("GET /smuggled HTTP/1.1\r\n"), 400, "bad_request"},

		// Values.
		{"a NUL in a value", wireGet("X: a\x00b\r\n"), 400, "bad_request"},
		{"a control in a value", wireGet("X: a\x01b\r\n"), 400, "bad_request"},
		{"a backspace in a value", wireGet("X: a\x08\r\n"), 400, "bad_request"},
		{"a vertical tab in a value", wireGet("X: a\x0bb\r\n"), 400, "bad_request"},
		{"a form feed in a value", wireGet("X: \x0ca\r\n"), 400, "bad_request"},
		{"an escape in a value", wireGet("X: \x1b[0m\r\n"), 400, "bad_request"},
		{"a DEL in a value", wireGet("X: a\x7f\r\n"), 400, "bad_request"},

		// Line ends.
		{"a bare LF", wireGet("X: a\nY: b\r\n"), 400, "bad_request"},
		{"a bare LF before a length", wireGet("X: a\nContent-Length: 40\r\n"), 400, "bad_request"},
		{"a bare LF for the empty line", "GET /{n} HTTP/1.1\r\nHost: x\r\n\n", 400, "bad_request"},
		{"a bare LF before the empty line", "GET /{n} HTTP/1.1\r\nHost: x\n\r\n", 400, "bad_request"},
		{"a bare CR in a value", wireGet("X: a\rb\r\n"), 400, "bad_request"},
		{"a bare CR and a field", wireGet("X: a\rContent-Length: 40\r\n"), 400, "bad_request"},
		{"a bare CR before the line end", wireGet("X: a\r\r\n"), 400, "bad_request"},
		{"a bare CR at the beginning of a value", wireGet("X: \ra\r\n"), 400, "bad_request"},
		{"a bare CR before the empty line", wireGet("\r"), 400, "bad_request"},

		// Folding (RFC 9112 5.2).
		{"a folded field", wireGet("X: a\r\n b\r\n"), 400, "bad_request"},
		{"a field folded with a tab", wireGet("X: a\r\n\tb\r\n"), 400, "bad_request"},
		{"a field folded to nothing", wireGet("X: a\r\n \r\n"), 400, "bad_request"},
		{"a folded first field", "GET /{n} HTTP/1.1\r\n Host: x\r\n\r\n", 400, "bad_request"},
		{"a folded Host", "GET /{n} HTTP/1.1\r\nHost:\r\n x\r\n\r\n", 400, "bad_request"},
		{"a folded field that frames", wireGet("X: a\r\n Transfer-Encoding: chunked\r\n"), 400, "bad_request"},

		// Host (RFC 9112 3.2).
		{"no Host", "GET /{n} HTTP/1.1\r\nX: y\r\n\r\n", 400, "bad_request"},
		{"no field at all", "GET /{n} HTTP/1.1\r\n\r\n", 400, "bad_request"},
		{"two Hosts", "GET /{n} HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "bad_request"},
		{"two equal Hosts", "GET /{n} HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400, "bad_request"},
		{"two Hosts in other cases", "GET /{n} HTTP/1.1\r\nHost: x\r\nX: y\r\nhOST: x\r\n\r\n", 400, "bad_request"},
		{"two Hosts with a URI", "GET http://x/{n} HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "bad_request"},
		{"two Hosts in HTTP/1.0", "GET /{n} HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", 400, "bad_request"},
		{"two Hosts of HEAD", "HEAD /{n} HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "bad_request"},
		{"an empty Host", "GET /{n} HTTP/1.1\r\nHost:\r\n\r\n", 400, "bad_request"},
		{"a Host of a space before the colon", "GET /{n} HTTP/1.1\r\nHost : x\r\n\r\n", 400, "bad_request"},
		{"a Host with a slash", "GET /{n} HTTP/1.1\r\nHost: x/y\r\n\r\n", 400, "bad_request"},
		{"a Host with a query", "GET /{n} HTTP/1.1\r\nHost: x?y\r\n\r\n", 400, "bad_request"},
		{"a Host with user information", "GET /{n} HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, "bad_request"},
		{"a Host of two", "GET /{n} HTTP/1.1\r\nHost: x y\r\n\r\n", 400, "bad_request"},
		{"a list of Hosts", "GET /{n} HTTP/1.1\r\nHost: x, y\r\n\r\n", 400, "bad_request"},
		{"a Host with a scheme", "GET /{n} HTTP/1.1\r\nHost: http://x\r\n\r\n", 400, "bad_request"},
		{"a Host with a bad port", "GET /{n} HTTP/1.1\r\nHost: x:y\r\n\r\n", 400, "bad_request"},
		{"a Host with two ports", "GET /{n} HTTP/1.1\r\nHost: x:1:2\r\n\r\n", 400, "bad_request"},
		{"a Host of a port", "GET /{n} HTTP/1.1\r\nHost: :80\r\n\r\n", 400, "bad_request"},
		{"a Host of IPv6 without brackets", "GET /{n} HTTP/1.1\r\nHost: ::1\r\n\r\n", 400, "bad_request"},
		{"a Host of half a bracket", "GET /{n} HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, "bad_request"},
		{"a Host of IPv6 with a zone", "GET /{n} HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n", 400, "bad_request"},
		{"a Host of IPv6 and more", "GET /{n} HTTP/1.1\r\nHost: [::1]x\r\n\r\n", 400, "bad_request"},
		{"a Host that is not ASCII", "GET /{n} HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n", 400, "bad_request"},
		{"a Host in angle brackets", "GET /{n} HTTP/1.1\r\nHost: <x>\r\n\r\n", 400, "bad_request"},

		// Too much.
		{"a long field", wireGet("X: " + strings.Repeat("y", 5000) + "\r\n"), 431, "header_too_large"},
		{"a long name", wireGet(strings.Repeat("y", 5000) + ": x\r\n"), 431, "header_too_large"},
		{"a long field that does not end", "GET /{n} HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 5000), 431, "header_too_large"},
		{"many long fields", wireGet(strings.Repeat("X: "+strings.Repeat("y", 300)+"\r\n", 15)), 431, "header_too_large"},
		{"many fields", wireGet(strings.Repeat("X: y\r\n", 45)), 431, "header_too_large"},
		{"a long request line", strings.Repeat("A", 5000) + " /{n} HTTP/1.1\r\nHost: x\r\n\r\n", 431, "header_too_large"},
	})
	g.finish(t)
}
