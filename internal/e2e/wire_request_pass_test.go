package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestWireRequestsThatPass says in bytes what the endpoint gets of requests that
// are served: one meaning, and none of what belongs to the client's connection.
func TestWireRequestsThatPass(t *testing.T) {
	g := newWireGroup(t)
	const plain = "GET /{n} HTTP/1.1\nHost: x"
	g.passes(t, []wirePass{
		// Request lines.
		{name: "plain", in: wireGet(""), reaches: []string{plain}},
		{name: "an empty line before", in: "\r\n" + wireGet(""), reaches: []string{plain}},
		{name: "HEAD", in: "HEAD /{n} HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"HEAD /{n} HTTP/1.1\nHost: x"}},
		{name: "a method of its own", in: "BREW /{n} HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"BREW /{n} HTTP/1.1\nHost: x"}},
		{name: "a method in lower case", in: "get /{n} HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"get /{n} HTTP/1.1\nHost: x"}},
		{name: "a method with a dash", in: "M-SEARCH /{n} HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"M-SEARCH /{n} HTTP/1.1\nHost: x"}},
		{name: "a method of all that a token may have", in: "!#$%&'*+-.^_`|~09Az /{n} HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"!#$%&'*+-.^_`|~09Az /{n} HTTP/1.1\nHost: x"}},
		{name: "a long method", in: strings.Repeat("M", 200) + " /{n} HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{strings.Repeat("M", 200) + " /{n} HTTP/1.1\nHost: x"}},
		{name: "OPTIONS of *", in: "OPTIONS * HTTP/1.1\r\nHost: x\r\nX: {n}\r\n\r\n", reaches: []string{"OPTIONS * HTTP/1.1\nHost: x\nX: {n}"}},
		{name: "a raw path that is not ASCII", in: "GET /{n}/\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"GET /{n}/%C3%A9 HTTP/1.1\nHost: x"}},
		{name: "a path to bring into its one form", in: "GET //{n}/a/./..//%7e/%2f%3a HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"GET /{n}/~/%2F%3A HTTP/1.1\nHost: x"}},
		{name: "a query byte for byte", in: "GET /{n}?a=%zz&;b=%2f//../?\"<\xe9\\ HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"GET /{n}?a=%zz&;b=%2f//../?\"<\xe9\\ HTTP/1.1\nHost: x"}},
		{name: "an empty query", in: "GET /{n}? HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"GET /{n}? HTTP/1.1\nHost: x"}},

		// The absolute form, whose authority replaces Host (RFC 9112 3.2.2).
		{name: "a URI", in: "GET http://y:81/{n}?q HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"GET /{n}?q HTTP/1.1\nHost: y:81"}},
		{name: "a URI in capitals", in: "GET HTTP://Y/{n} HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"GET /{n} HTTP/1.1\nHost: Y"}},
		{name: "a URI of https", in: "GET https://y/{n} HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"GET /{n} HTTP/1.1\nHost: y"}},
		{name: "a URI without a path", in: "GET http://y?{n} HTTP/1.1\r\nHost: x\r\n\r\n", reaches: []string{"GET /?{n} HTTP/1.1\nHost: y"}},
		{name: "a URI of the whole", in: "OPTIONS http://y HTTP/1.1\r\nHost: x\r\nX: {n}\r\n\r\n", reaches: []string{"OPTIONS * HTTP/1.1\nHost: y\nX: {n}"}},
		{name: "a URI in HTTP/1.0", in: "GET http://y/{n} HTTP/1.0\r\n\r\n", reaches: []string{"GET /{n} HTTP/1.1\nHost: y\nVia: 1.0 tested"}, closes: true},

		// Host.
		{name: "a Host with a port", in: "GET /{n} HTTP/1.1\r\nhost: X.test:8080\r\n\r\n", reaches: []string{"GET /{n} HTTP/1.1\nHost: X.test:8080"}},
		{name: "a Host with a last dot", in: "GET /{n} HTTP/1.1\r\nHost: x.test.\r\n\r\n", reaches: []string{"GET /{n} HTTP/1.1\nHost: x.test."}},
		{name: "a Host of IPv6", in: "GET /{n} HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", reaches: []string{"GET /{n} HTTP/1.1\nHost: [::1]:80"}},
		{name: "a Host behind white space", in: "GET /{n} HTTP/1.1\r\nHost:\t x \t\r\n\r\n", reaches: []string{plain}},
		{name: "a Host that is not first", in: "GET /{n} HTTP/1.1\r\nA: b\r\nHost: x\r\nC: d\r\n\r\n", reaches: []string{plain + "\nA: b\nC: d"}},

		// Fields.
		{name: "order and spelling", in: wireGet("b: 1\r\nA: 2\r\nB: 3\r\nuser-AGENT: y\r\nACCEPT: z\r\n"), reaches: []string{plain + "\nb: 1\nA: 2\nB: 3\nuser-AGENT: y\nACCEPT: z"}},
		{name: "white space around a value", in: wireGet("X:  \t a b\t \r\nY:c\r\n"), reaches: []string{plain + "\nX: a b\nY: c"}},
		{name: "white space in a value", in: wireGet("X: a \t b\r\n"), reaches: []string{plain + "\nX: a \t b"}},
		{name: "empty values", in: wireGet("X:\r\nY: \t\r\n"), reaches: []string{plain + "\nX: \nY: "}},
		{name: "bytes past ASCII in a value", in: wireGet("X: \x80\xc3\xa9\xff\r\n"), reaches: []string{plain + "\nX: \x80\xc3\xa9\xff"}},
		{name: "a name of all that a token may have", in: wireGet("!#$%&'*+-.^_`|~09Az: y\r\n"), reaches: []string{plain + "\n!#$%&'*+-.^_`|~09Az: y"}},
		{name: "a colon in a value", in: wireGet("X: Y: z\r\n"), reaches: []string{plain + "\nX: Y: z"}},
		{name: "as many fields as may be", in: wireGet(strings.Repeat("X: y\r\n", 39)), reaches: []string{plain + strings.Repeat("\nX: y", 39)}},

		// What the gateway sets, nobody else does.
		{name: "forwarded fields of a stranger", in: wireGet("X-Forwarded-For: 6.6.6.6\r\nx-forwarded-proto: https\r\nX-Forwarded-Host: y\r\nX-Forwarded-Port: 1\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nA: b\r\n"), reaches: []string{plain + "\nA: b"}},
		{name: "look-alikes", in: wireGet("X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Proto: https\r\nx_forwarded-host: y\r\nX_Real_IP: 6\r\nX_Request_ID: mine\r\nX-Request_ID: mine\r\nA_B: c\r\n"), reaches: []string{plain + "\nA_B: c"}},
		{name: "look-alikes of the framing", in: wirePost("Content_Length: 44\r\nTransfer_Encoding: chunked\r\nTransfer-encoding_: y\r\nContent-Length: 1\r\n", "a"), reaches: []string{"POST /{n} HTTP/1.1\nHost: x\nTransfer-encoding_: y\nContent-Length: 1\n\na"}},
		{name: "a request id of a stranger", in: wireGet("x-request-id: mine\r\n"), reaches: []string{plain}},
		{name: "Via of others", in: wireGet("Via: 1.0 a\r\nX: y\r\nVia: 1.1 b\r\n"), reaches: []string{plain + "\nVia: 1.0 a, 1.1 b, 1.1 tested\nX: y"}},
		{name: "Connection names what the gateway sets", in: wireGet("Connection: X-Forwarded-For, X-Real-IP, Via, X-Request-ID, Host, Content-Length\r\n"), reaches: []string{plain}},

		// What belongs to the connection (RFC 9110 7.6.1).
		{name: "hop by hop", in: wireGet("Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nx-hop: 2\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTE: gzip\r\nUpgrade: websocket\r\nX-Stays: 1\r\n"), reaches: []string{plain + "\nX-Stays: 1"}},
		{name: "Connection on several lines", in: wireGet("Connection: X-A\r\nconnection: ,x-b,\r\nX-A: 1\r\nX-B: 2\r\nX-C: 3\r\n"), reaches: []string{plain + "\nX-C: 3"}},
		{name: "TE: trailers", in: wireGet("TE: trailers\r\nConnection: TE\r\n"), reaches: []string{plain + "\nTE: trailers\nConnection: TE"}},
		{name: "an upgrade to h2c", in: wireGet("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), reaches: []string{plain}},
		{name: "Connection: close", in: wireGet("Connection: close\r\n"), reaches: []string{plain}, closes: true, rest: wireMarker},
		{name: "Connection: close among others", in: wireGet("Connection: X-Hop ,\tCLOSE\r\nX-Hop: 1\r\n"), reaches: []string{plain}, closes: true, rest: wireMarker},
		{name: "Connection: closed", in: wireGet("Connection: closed\r\n"), reaches: []string{plain}},

		// HTTP/1.0.
		{name: "HTTP/1.0", in: "GET /{n} HTTP/1.0\r\nHost: x\r\n\r\n", reaches: []string{plain + "\nVia: 1.0 tested"}, closes: true, rest: wireMarker},
		{name: "HTTP/1.0 that keeps alive", in: "GET /{n} HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", reaches: []string{plain + "\nVia: 1.0 tested"}},
		{name: "HTTP/1.0 of two minds", in: "GET /{n} HTTP/1.0\r\nHost: x\r\nConnection: keep-alive, close\r\n\r\n", reaches: []string{plain + "\nVia: 1.0 tested"}, closes: true, rest: wireMarker},
		{name: "HTTP/1.0 with a length", in: "POST /{n} HTTP/1.0\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", reaches: []string{"POST /{n} HTTP/1.1\nHost: x\nVia: 1.0 tested\nContent-Length: 3\n\nabc"}, closes: true, rest: wireMarker},
		{name: "HTTP/1.0 with Expect", in: "POST /{n} HTTP/1.0\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", reaches: []string{"POST /{n} HTTP/1.1\nHost: x\nVia: 1.0 tested\nContent-Length: 3\n\nabc"}, closes: true},
		{name: "HTTP/1.0 cannot upgrade", in: "GET /{n} HTTP/1.0\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", reaches: []string{plain + "\nVia: 1.0 tested"}, closes: true},
	})
	g.finish(t)
}

// TestWireBodiesThatPass does so for bodies: what was framed in any way that is
// right arrives in one.
func TestWireBodiesThatPass(t *testing.T) {
	g := newWireGroup(t)
	const plain, post = "GET /{n} HTTP/1.1\nHost: x", "POST /{n} HTTP/1.1\nHost: x"
	const chunked, smuggled = post + "\nTransfer-Encoding: chunked", "GET /smuggled/{n} HTTP/1.1\r\nHost: x\r\n\r\n"
	inBody := strings.ReplaceAll(smuggled, "{n}", "n0") // of a length that is known
	g.passes(t, []wirePass{
		// Lengths.
		{name: "a length", in: wirePost("Content-Length: 3\r\n", "abc"), reaches: []string{post + "\nContent-Length: 3\n\nabc"}},
		{name: "a length of 0", in: wirePost("Content-Length: 0\r\n", ""), reaches: []string{post + "\nContent-Length: 0"}},
		{name: "POST without a length", in: wirePost("", ""), reaches: []string{post + "\nContent-Length: 0"}},
		{name: "GET with a length of 0", in: wireGet("Content-Length: 0\r\n"), reaches: []string{plain}},
		{name: "equal lengths", in: wirePost("Content-Length: 3\r\nX: y\r\ncontent-length: 3\r\n", "abc"), reaches: []string{post + "\nX: y\nContent-Length: 3\n\nabc"}},
		{name: "leading zeros", in: wirePost("Content-Length: 0003\r\n", "abc"), reaches: []string{post + "\nContent-Length: 3\n\nabc"}},
		{name: "white space around a length", in: wirePost("Content-Length:\t 3 \t\r\n", "abc"), reaches: []string{post + "\nContent-Length: 3\n\nabc"}},
		{name: "GET with a body", in: wireGet("Content-Length: 3\r\n") + "abc", reaches: []string{plain + "\nContent-Length: 3\n\nabc"}},
		{name: "HEAD with a body", in: "HEAD /{n} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", reaches: []string{"HEAD /{n} HTTP/1.1\nHost: x\nContent-Length: 3\n\nabc"}},
		{name: "Connection names the length", in: wirePost("Connection: Content-Length\r\nContent-Length: 3\r\n", "abc"), reaches: []string{post + "\nContent-Length: 3\n\nabc"}},
		{name: "a body of all bytes", in: wirePost("Content-Length: 6\r\n", "\x00\r\n\n\xff\r"), reaches: []string{post + "\nContent-Length: 6\n\n\x00\r\n\n\xff\r"}},
		{name: "CL.0", in: wirePost(fmt.Sprintf("Content-Length: %d\r\n", len(inBody)), inBody), reaches: []string{post + fmt.Sprintf("\nContent-Length: %d\n\n", len(inBody)) + inBody}},
		{name: "CL.0 of GET", in: wireGet(fmt.Sprintf("Content-Length: %d\r\n", len(inBody))) + inBody, reaches: []string{plain + fmt.Sprintf("\nContent-Length: %d\n\n", len(inBody)) + inBody}},
		{name: "CL.0 of OPTIONS *", in: fmt.Sprintf("OPTIONS * HTTP/1.1\r\nHost: x\r\nX: {n}\r\nContent-Length: %d\r\n\r\n", len(inBody)) + inBody, reaches: []string{fmt.Sprintf("OPTIONS * HTTP/1.1\nHost: x\nX: {n}\nContent-Length: %d\n\n", len(inBody)) + inBody}},
		{name: "CL.0 and a request behind", in: wirePost(fmt.Sprintf("Content-Length: %d\r\n", len(inBody)), inBody) + wireGet(""), reaches: []string{post + fmt.Sprintf("\nContent-Length: %d\n\n", len(inBody)) + inBody, plain}},

		// The chunked coding.
		{name: "chunks", in: wireChunked("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "CHUNKED", in: wirePost("TRANSFER-ENCODING: CHUNKED\r\n", "3\r\nabc\r\n0\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "white space around chunked", in: wirePost("Transfer-Encoding:\t chunked \t\r\n", "3\r\nabc\r\n0\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "no chunk", in: wireChunked("0\r\n\r\n"), reaches: []string{chunked}},
		{name: "chunks of GET", in: wireGet("Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n", reaches: []string{plain + "\nTransfer-Encoding: chunked\n\nabc"}},
		{name: "Connection names the coding", in: wirePost("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "leading zeros of a size", in: wireChunked("0000000000000003\r\nabc\r\n00\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "sizes in both cases", in: wireChunked("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n"), reaches: []string{chunked + "\n\n01234567890123456789"}},
		{name: "a request in a chunk", in: wireChunked(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inBody), inBody)), reaches: []string{chunked + "\n\n" + inBody}},
		{name: "TE.0", in: wireChunked("0\r\n\r\n") + wireGet(""), reaches: []string{chunked, plain}},
		{name: "an extension", in: wireChunked("3;a=b\r\nabc\r\n0\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "extensions of all kinds", in: wireChunked("3;a;b = \"c;d\\\"\";\xe9\r\nabc\r\n0;last\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "a size in an extension", in: wireChunked("3;5\r\nabc\r\n0;5\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},

		// Trailers.
		{name: "trailers", in: wireChunked("3\r\nabc\r\n0\r\nX-Sum: 1\r\nx-more:2\r\n\r\n"), reaches: []string{chunked + "\n\nabc\n\nX-Sum: 1\nx-more: 2"}},
		{name: "trailers without a body", in: wireChunked("0\r\nX-Sum: 1\r\n\r\n"), reaches: []string{chunked + "\n\n\n\nX-Sum: 1"}},
		{name: "an announced trailer", in: wirePost("Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"), reaches: []string{post + "\nTrailer: X-Sum\nTransfer-Encoding: chunked\n\nabc\n\nX-Sum: 1"}},
		{name: "announced trailers that may not be some", in: wirePost("Trailer: Host, X-Sum, Authorization\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"), reaches: []string{post + "\nTrailer: X-Sum\nTransfer-Encoding: chunked\n\nabc\n\nX-Sum: 1"}},
		{name: "trailers that frame", in: wireChunked("3\r\nabc\r\n0\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\nConnection: close\r\nX-Sum: 1\r\n\r\n"), reaches: []string{chunked + "\n\nabc\n\nX-Sum: 1"}},
		{name: "trailers that route", in: wireChunked("3\r\nabc\r\n0\r\nHost: y\r\nhOST: z\r\nUpgrade: h2c\r\nMax-Forwards: 1\r\nExpect: 100-continue\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "trailers that authenticate", in: wireChunked("3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\nCookie: a=b\r\nProxy-Authorization: x\r\nSet-Cookie: c=d\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "trailers that say where it came from", in: wireChunked("3\r\nabc\r\n0\r\nX-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6\r\nX-Forwarded-Port: 1\r\nVia: 1.1 y\r\nX-Request-ID: mine\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "trailers that look alike", in: wireChunked("3\r\nabc\r\n0\r\nX_Forwarded_For: 6\r\nContent_Length: 4\r\nX_Real-IP: 6\r\nA_B: c\r\n\r\n"), reaches: []string{chunked + "\n\nabc\n\nA_B: c"}},
		{name: "trailers that modify", in: wireChunked("3\r\nabc\r\n0\r\nIf-Match: x\r\nRange: bytes=0-1\r\nTE: gzip\r\nCache-Control: no-store\r\nContent-Type: x/y\r\nContent-Encoding: gzip\r\nContent-Range: x\r\n\r\n"), reaches: []string{chunked + "\n\nabc"}},
		{name: "a trailer that the head has", in: wirePost("X-Role: user\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\nx-role: admin\r\nX-Sum: 1\r\n\r\n"), reaches: []string{post + "\nX-Role: user\nTransfer-Encoding: chunked\n\nabc\n\nX-Sum: 1"}},

		// Pipelines (RFC 9112 9.3.2).
		{name: "three", in: wireGet("X: 1\r\n") + wireGet("X: 2\r\n") + wireGet("X: 3\r\n"), reaches: []string{plain + "\nX: 1", plain + "\nX: 2", plain + "\nX: 3"}},
		{name: "with bodies between", in: wirePost("Content-Length: 3\r\n", "abc") + wireChunked("3\r\ndef\r\n0\r\n\r\n") + wireGet("") + wirePost("Content-Length: 1\r\n", "g"), reaches: []string{post + "\nContent-Length: 3\n\nabc", chunked + "\n\ndef", plain, post + "\nContent-Length: 1\n\ng"}},
		{name: "HEAD between", in: "HEAD /{n} HTTP/1.1\r\nHost: x\r\n\r\n" + wireGet(""), reaches: []string{"HEAD /{n} HTTP/1.1\nHost: x", plain}},
		{name: "an empty line behind a body", in: wirePost("Content-Length: 3\r\n", "abc") + "\r\n" + wireGet(""), reaches: []string{post + "\nContent-Length: 3\n\nabc", plain}},
		{name: "twenty", in: strings.Repeat(wireGet(""), 20), reaches: strings.Split(strings.Repeat(plain+"|", 19)+plain, "|")},
		{name: "the second closes", in: wireGet("") + wireGet("Connection: close\r\n"), reaches: []string{plain, plain}, closes: true, rest: wireMarker},
	})
	g.finish(t)
}
