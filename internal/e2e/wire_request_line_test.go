package e2e

import (
	"strings"
	"testing"
)

// TestWireRequestLines refuses what is no request line (RFC 9112 3), or whose
// target nobody may take (RFC 9112 3.2, SPEC 4).
func TestWireRequestLines(t *testing.T) {
	g := newWireGroup(t)
	const rest = "\r\nHost: x\r\n\r\n"
	g.refusals(t, []wireRefusal{
		// The version.
		{"HTTP/0.9", "GET /{n}\r\n", 400, "bad_request"},
		{"HTTP/0.9 with fields", "GET /{n}" + rest, 400, "bad_request"},
		{"HTTP/0.9 by name", "GET /{n} HTTP/0.9" + rest, 505, "bad_version"},
		{"HTTP/1.2", "GET /{n} HTTP/1.2" + rest, 505, "bad_version"},
		{"HTTP/2.0", "GET /{n} HTTP/2.0" + rest, 505, "bad_version"},
		{"HTTP/3.0", "GET /{n} HTTP/3.0" + rest, 505, "bad_version"},
		{"HTTP/9.9 and a bad target", "GET x{n} HTTP/9.9" + rest, 505, "bad_version"},
		{"a version of one digit", "GET /{n} HTTP/1" + rest, 400, "bad_request"},
		{"a version of no digit", "GET /{n} HTTP/1." + rest, 400, "bad_request"},
		{"a version of three digits", "GET /{n} HTTP/1.10" + rest, 400, "bad_request"},
		{"a version with a leading zero", "GET /{n} HTTP/01.1" + rest, 400, "bad_request"},
		{"a version with a sign", "GET /{n} HTTP/+1.1" + rest, 400, "bad_request"},
		{"a version with a comma", "GET /{n} HTTP/1,1" + rest, 400, "bad_request"},
		{"a version in lower case", "GET /{n} http/1.1" + rest, 400, "bad_request"},
		{"another protocol", "GET /{n} HTTPS/1.1" + rest, 400, "bad_request"},
		{"a version without a slash", "GET /{n} HTTP1.1" + rest, 400, "bad_request"},
		{"NUL behind the version", "GET /{n} HTTP/1.1\x00" + rest, 400, "bad_request"},
		{"a tab behind the version", "GET /{n} HTTP/1.1\t" + rest, 400, "bad_request"},

		// Spaces.
		{"two spaces before the target", "GET  /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"two spaces before the version", "GET /{n}  HTTP/1.1" + rest, 400, "bad_request"},
		{"a space behind the version", "GET /{n} HTTP/1.1 " + rest, 400, "bad_request"},
		{"a space before the method", " GET /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a space in the version", "GET /{n} HTTP/ 1.1" + rest, 400, "bad_request"},
		{"a space in the target", "GET /{n} b HTTP/1.1" + rest, 400, "bad_request"},
		{"a request in the target", "GET /{n} HTTP/1.1 /smuggled HTTP/1.1" + rest, 400, "bad_request"},
		{"a tab before the target", "GET\t/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a tab before the version", "GET /{n}\tHTTP/1.1" + rest, 400, "bad_request"},
		{"a vertical tab before the version", "GET /{n}\x0bHTTP/1.1" + rest, 400, "bad_request"},
		{"a no-break space before the version", "GET /{n}\xa0HTTP/1.1" + rest, 400, "bad_request"},
		{"no target", "GET  HTTP/1.1" + rest, 400, "bad_request"},
		{"no target and one space", "GET HTTP/1.1" + rest, 400, "bad_request"},
		{"a method alone", "GET" + rest, 400, "bad_request"},

		// Line ends.
		{"a bare LF", "GET /{n} HTTP/1.1\nHost: x\r\n\r\n", 400, "bad_request"},
		{"bare LF everywhere", "GET /{n} HTTP/1.1\nHost: x\n\n", 400, "bad_request"},
		{"two CR before the LF", "GET /{n} HTTP/1.1\r\r\nHost: x\r\n\r\n", 400, "bad_request"},
		{"a bare CR in the target", "GET /{n}\rb HTTP/1.1" + rest, 400, "bad_request"},
		{"a bare CR for a line end", "GET /{n} HTTP/1.1\rHost: x\r\n\r\n", 400, "bad_request"},
		{"two empty lines before", "\r\n\r\nGET /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a bare LF before", "\nGET /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a bare CR before", "\rGET /{n} HTTP/1.1" + rest, 400, "bad_request"},

		// The method.
		{"no method", " /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a method with brackets", "G[T /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a method with a colon", "GET: /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a method with a slash", "GET/ /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a method with a NUL", "GE\x00T /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a method with a DEL", "GET\x7f /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a method that is not ASCII", "G\xc3\x89T /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a quoted method", "\"GET\" /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"CONNECT", "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n", 405, "method_not_allowed"},
		{"CONNECT of a path", "CONNECT /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"CONNECT of a URI", "CONNECT http://x/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"CONNECT with a length", "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\nContent-Length: 3\r\n\r\nabc", 405, "method_not_allowed"},

		// The target.
		{"a target without a slash", "GET {n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a query alone", "GET ?{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a fragment", "GET /{n}#b HTTP/1.1" + rest, 400, "bad_request"},
		{"a fragment behind a query", "GET /{n}?a#b HTTP/1.1" + rest, 400, "bad_request"},
		{"a control in the target", "GET /{n}\x01 HTTP/1.1" + rest, 400, "bad_request"},
		{"a NUL in the target", "GET /{n}\x00 HTTP/1.1" + rest, 400, "bad_request"},
		{"a DEL in the query", "GET /{n}?\x7f HTTP/1.1" + rest, 400, "bad_request"},
		{"GET of *", "GET * HTTP/1.1" + rest, 400, "bad_request"},
		{"OPTIONS of more than *", "OPTIONS *{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"OPTIONS of * with a query", "OPTIONS *?{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a long target", "GET /{n}" + strings.Repeat("y", 1100) + " HTTP/1.1" + rest, 414, "uri_too_long"},
		{"a long target of another method", "BREW /{n}?" + strings.Repeat("y", 3000) + " HTTP/1.1" + rest, 414, "uri_too_long"},

		// The absolute form.
		{"an authority alone", "GET x:80 HTTP/1.1" + rest, 400, "bad_request"},
		{"another scheme", "GET ftp://x/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"one slash", "GET http:/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"no authority", "GET http:///{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"an authority of a port", "GET http://:80/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"user information", "GET http://u@x/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"user information with a password", "GET http://u:p@x/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a port of letters", "GET http://x:a/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"an escape in the authority", "GET http://x%2Fy/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a backslash in the authority", "GET http://x\\y/{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a fragment in a URI", "GET http://x/{n}#f HTTP/1.1" + rest, 400, "bad_request"},
		{"a URI without Host", "GET http://x/{n} HTTP/1.1\r\n\r\n", 400, "bad_request"},
		{"a URI with a bad Host", "GET http://x/{n} HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, "bad_request"},

		// The path.
		{"an encoded NUL", "GET /{n}%00 HTTP/1.1" + rest, 400, "bad_path"},
		{"an escape that is not hex", "GET /{n}%zz HTTP/1.1" + rest, 400, "bad_path"},
		{"half an escape", "GET /{n}%4 HTTP/1.1" + rest, 400, "bad_path"},
		{"a raw backslash", "GET /{n}\\b HTTP/1.1" + rest, 400, "bad_path"},
		{"above the root", "GET /{n}/../../b HTTP/1.1" + rest, 400, "bad_path"},
		{"above the root in escapes", "GET /%2e%2e/{n} HTTP/1.1" + rest, 400, "bad_path"},
		{"above the root of a URI", "GET http://x/../{n} HTTP/1.1" + rest, 400, "bad_path"},
		{"a hidden dot segment", "GET /{n}/..%2Fb HTTP/1.1" + rest, 400, "bad_path"},
		{"a hidden dot segment with a backslash", "GET /{n}/%2e%2e%5cb HTTP/1.1" + rest, 400, "bad_path"},
		{"a bad path with a body", "POST /{n}%zz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 400, "bad_path"},
		{"a bad path that waits to send its body", "POST /{n}%zz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc", 400, "bad_path"},

		// Other protocols.
		{"TLS", "\x16\x03\x01\x00\xc4\x01\x00\x00\xc0\x03\x03", 400, "bad_request"},
		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", 400, "bad_request"},
		{"SMTP", "EHLO x\r\n", 400, "bad_request"},
		{"Redis", "*1\r\n$4\r\nPING\r\n", 400, "bad_request"},
		{"a PROXY line", "PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\nGET /{n} HTTP/1.1" + rest, 400, "bad_request"},
		{"a response", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 400, "bad_request"},
	})
	g.finish(t)
}
