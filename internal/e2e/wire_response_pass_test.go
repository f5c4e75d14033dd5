package e2e

import (
	"strings"
	"testing"
)

// TestWireResponsesThatPass says in bytes what a client gets of answers that are
// right, or that RFC 9110 says how to mend, and what becomes of both connections.
func TestWireResponsesThatPass(t *testing.T) {
	g := newWireGroup(t)
	const (
		ok      = "HTTP/1.1 200 OK"
		in10    = "GET /{n} HTTP/1.0\r\nHost: x\r\n\r\n"
		in10On  = "GET /{n} HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"
		head    = "HEAD /{n} HTTP/1.1\r\nHost: x\r\n\r\n"
		chunked = ok + "\nTransfer-Encoding: chunked"
		hint    = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
		hinted  = "HTTP/1.1 103 Early Hints\nLink: </a>"
	)
	g.answers(t, []wireAnswer{
		// Status lines and fields.
		{name: "a length", out: ok + "\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "no reason phrase", out: "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "an empty reason phrase", out: "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "a reason phrase of its own", out: "HTTP/1.1 200 Na sch\xc3\xb6n\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "a status of its own", out: "HTTP/1.1 599 Whatever\r\nContent-Length: 2\r\n\r\nok", want: "HTTP/1.1 599 \nContent-Length: 2\n\nok", reused: true},
		{name: "order and spelling", out: ok + "\r\nb: 1\r\nA: 2\r\nB: 3\r\nset-cookie: y\r\nSet-Cookie: x\r\nContent-Length: 0\r\n\r\n", want: ok + "\nb: 1\nA: 2\nB: 3\nset-cookie: y\nSet-Cookie: x\nContent-Length: 0", reused: true},
		{name: "white space around values", out: ok + "\r\nX:\t a b \r\nY:c\r\nZ: \r\nContent-Length:\t0 \r\n\r\n", want: ok + "\nX: a b\nY: c\nZ: \nContent-Length: 0", reused: true},
		{name: "bytes past ASCII in a value", out: ok + "\r\nX: \xe9\r\nContent-Length: 0\r\n\r\n", want: ok + "\nX: \xe9\nContent-Length: 0", reused: true},
		{name: "Date and Server", out: ok + "\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: y\r\nContent-Length: 0\r\n\r\n", want: ok + "\nDate: Thu, 01 Jan 1970 00:00:00 GMT\nServer: y\nContent-Length: 0", reused: true},
		{name: "a request id of the endpoint's", out: ok + "\r\nX-Request-ID: theirs\r\nContent-Length: 0\r\n\r\n", want: ok + "\nContent-Length: 0", reused: true},
		{name: "Via of others", out: ok + "\r\nVia: 1.1 a\r\nVia: 1.0 b\r\nContent-Length: 0\r\n\r\n", want: ok + "\nVia: 1.1 a, 1.0 b, 1.1 tested\nContent-Length: 0", reused: true},
		{name: "401", out: "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", want: "HTTP/1.1 401 Unauthorized\nWWW-Authenticate: Basic\nContent-Length: 0", reused: true},

		// What belongs to the connection.
		{name: "hop by hop", out: ok + "\r\nConnection: X-Hop\r\nX-Hop: 1\r\nx-hop: 2\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nX-Stays: 1\r\nContent-Length: 0\r\n\r\n", want: ok + "\nX-Stays: 1\nContent-Length: 0", reused: true},
		{name: "Connection: close", out: ok + "\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok"},
		{name: "Connection: close and a field", out: ok + "\r\nX-Hop: 1\r\nConnection: X-Hop\r\nconnection: CLOSE\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok"},
		{name: "Connection names the framing", out: ok + "\r\nConnection: Content-Length, Date\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "426", out: "HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n", want: "HTTP/1.1 426 Upgrade Required\nUpgrade: websocket\nConnection: Upgrade\nContent-Length: 0", reused: true},

		// Framing (RFC 9112 6.3).
		{name: "equal lengths", out: ok + "\r\nContent-Length: 2\r\nX: y\r\ncontent-length: 2\r\n\r\nok", want: ok + "\nX: y\nContent-Length: 2\n\nok", reused: true},
		{name: "leading zeros", out: ok + "\r\nContent-Length: 002\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "a length of 0", out: ok + "\r\nContent-Length: 0\r\n\r\n", want: ok + "\nContent-Length: 0", reused: true},
		{name: "chunks", out: ok + "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", want: chunked + "\n\nok", reused: true},
		{name: "CHUNKED", out: ok + "\r\nTRANSFER-ENCODING:CHUNKED\r\n\r\n2\r\nok\r\n0\r\n\r\n", want: chunked + "\n\nok", reused: true},
		{name: "no chunk", out: ok + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: chunked, reused: true},
		{name: "extensions", out: ok + "\r\nTransfer-Encoding: chunked\r\n\r\n02;a=\"b;c\"\r\nok\r\n0;d\r\n\r\n", want: chunked + "\n\nok", reused: true},
		{name: "trailers", ask: wireGet("TE: trailers\r\nConnection: TE\r\n"), out: ok + "\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nx-more:2\r\n\r\n", want: ok + "\nTrailer: X-Sum\nTransfer-Encoding: chunked\n\nok\n\nX-Sum: 1\nx-more: 2", reused: true},
		{name: "trailers that may not be some", ask: wireGet("TE: trailers\r\nConnection: TE\r\n"), out: ok + "\r\nTrailer: X-Sum, Set-Cookie\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\nLocation: /y\r\nDate: x\r\nVia: 1.1 y\r\nX-Request-ID: theirs\r\nConnection: close\r\nContent-Type: x/y\r\nCache-Control: no-store\r\nX-Sum: 1\r\n\r\n", want: ok + "\nTrailer: X-Sum\nTransfer-Encoding: chunked\n\nok\n\nX-Sum: 1", reused: true},
		{name: "the end of the connection", out: ok + "\r\n\r\nok", end: "close", want: chunked + "\n\nok"},
		{name: "the end of the connection, announced", out: ok + "\r\nConnection: close\r\n\r\nok", end: "close", want: chunked + "\n\nok"},
		{name: "no content but the end of the connection", out: ok + "\r\n\r\n", end: "close", want: chunked},

		// HTTP/1.0 on either side.
		{name: "an endpoint of HTTP/1.0", out: "HTTP/1.0 200 OK\r\n\r\nok", end: "close", want: chunked + "\n\nok"},
		{name: "an endpoint of HTTP/1.0 with a length", out: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok"},
		{name: "an endpoint of HTTP/1.0 that keeps alive", out: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "an endpoint of HTTP/1.0 of two minds", out: "HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok"},
		{name: "a length to HTTP/1.0", ask: in10On, out: ok + "\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "chunks to HTTP/1.0", ask: in10On, out: ok + "\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", want: ok + "\n\nok", closes: true, reused: true},
		{name: "the end of the connection to HTTP/1.0", ask: in10, out: ok + "\r\n\r\nok", end: "close", want: ok + "\n\nok", closes: true},
		{name: "hints to HTTP/1.0", ask: in10On, out: hint + ok + "\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},

		// No content, whatever the fields say.
		{name: "HEAD", ask: head, out: ok + "\r\nContent-Length: 5\r\n\r\n", want: ok + "\nContent-Length: 5", reused: true},
		{name: "HEAD of chunks", ask: head, out: ok + "\r\nTransfer-Encoding: chunked\r\n\r\n", want: ok, reused: true},
		{name: "HEAD without a length", ask: head, out: ok + "\r\nX: y\r\n\r\n", want: ok + "\nX: y", reused: true},
		{name: "204", out: "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", want: "HTTP/1.1 204 No Content\nX: y", reused: true},
		{name: "204 with a length of 0", out: "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", want: "HTTP/1.1 204 No Content", reused: true},
		{name: "204 with a length", out: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", want: "HTTP/1.1 204 No Content"},
		{name: "204 with a length, and a response for content", out: "HTTP/1.1 204 No Content\r\nContent-Length: 44\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison", want: "HTTP/1.1 204 No Content"},
		{name: "204 in chunks", out: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: "HTTP/1.1 204 No Content"},
		{name: "204 in chunks, and none comes", out: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", want: "HTTP/1.1 204 No Content"},
		{name: "205", out: "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", want: "HTTP/1.1 205 Reset Content\nContent-Length: 0", reused: true},
		{name: "205 in chunks", out: "HTTP/1.1 205 Reset Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: "HTTP/1.1 205 Reset Content\nContent-Length: 0", open: true},
		{name: "205 with content", out: "HTTP/1.1 205 Reset Content\r\nContent-Length: 5\r\n\r\nhello", want: "HTTP/1.1 205 Reset Content\nContent-Length: 0", open: true},
		{name: "205 and the end of the connection", out: "HTTP/1.1 205 Reset Content\r\n\r\nhello", end: "close", want: "HTTP/1.1 205 Reset Content\nContent-Length: 0"},
		{name: "304", out: "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 5\r\nContent-Type: x/y\r\n\r\n", want: "HTTP/1.1 304 Not Modified\nETag: \"x\"\nContent-Type: x/y\nContent-Length: 5", reused: true},
		{name: "304 without a length", out: "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", want: "HTTP/1.1 304 Not Modified\nETag: \"x\"", reused: true},
		{name: "304 of chunks", out: "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", want: "HTTP/1.1 304 Not Modified", reused: true},

		// Informational responses (RFC 9110 15.2).
		{name: "103", out: hint + ok + "\r\nContent-Length: 2\r\n\r\nok", informed: []string{hinted}, want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "103 twice and 102", out: hint + "HTTP/1.1 102 Processing\r\n\r\n" + hint + ok + "\r\nContent-Length: 2\r\n\r\nok", informed: []string{hinted, "HTTP/1.1 102 Processing", hinted}, want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "103 hop by hop", out: "HTTP/1.1 103 Early Hints\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: x\r\nLink: </a>\r\n\r\n" + ok + "\r\nContent-Length: 0\r\n\r\n", informed: []string{hinted}, want: ok + "\nContent-Length: 0", reused: true},
		{name: "103 with a length", out: "HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\nLink: </a>\r\n\r\n" + ok + "\r\nContent-Length: 2\r\n\r\nok", informed: []string{hinted}, want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "103 of HEAD", ask: head, out: hint + ok + "\r\nContent-Length: 5\r\n\r\n", informed: []string{hinted}, want: ok + "\nContent-Length: 5", reused: true},
		{name: "100 that nobody asked for", out: "HTTP/1.1 100 Continue\r\n\r\n" + ok + "\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok", reused: true},
		{name: "as many as may be", out: strings.Repeat(hint, 64) + ok + "\r\nContent-Length: 2\r\n\r\nok", informed: strings.Split(strings.Repeat(hinted+"|", 63)+hinted, "|"), want: ok + "\nContent-Length: 2\n\nok", reused: true},
	})
	g.finish(t)
}

// TestWirePoison: bytes behind a complete response are no response. They answer
// nobody, and their connection is not used again.
func TestWirePoison(t *testing.T) {
	g := newWireGroup(t)
	const (
		ok     = "HTTP/1.1 200 OK"
		poison = ok + "\r\nContent-Length: 6\r\n\r\npoison"
		head   = "HEAD /{n} HTTP/1.1\r\nHost: x\r\n\r\n"
	)
	for _, test := range []wireAnswer{
		{name: "a length", out: ok + "\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok"},
		{name: "a length of 0", out: ok + "\r\nContent-Length: 0\r\n\r\n", want: ok + "\nContent-Length: 0"},
		{name: "chunks", out: ok + "\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", want: ok + "\nTransfer-Encoding: chunked\n\nok"},
		{name: "HEAD", ask: head, out: ok + "\r\nContent-Length: 44\r\n\r\n", want: ok + "\nContent-Length: 44"},
		{name: "HEAD of chunks", ask: head, out: ok + "\r\nTransfer-Encoding: chunked\r\n\r\n", want: ok},
		{name: "204", out: "HTTP/1.1 204 No Content\r\n\r\n", want: "HTTP/1.1 204 No Content"},
		{name: "205", out: "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", want: "HTTP/1.1 205 Reset Content\nContent-Length: 0"},
		{name: "304", out: "HTTP/1.1 304 Not Modified\r\nContent-Length: 44\r\n\r\n", want: "HTTP/1.1 304 Not Modified\nContent-Length: 44"},
		{name: "a body", ask: wirePost("Content-Length: 1\r\n", "a"), out: ok + "\r\nContent-Length: 2\r\n\r\nok", want: ok + "\nContent-Length: 2\n\nok"},
	} {
		at, later, line := test, test, test
		at.name, at.out = test.name+", and a response", test.out+poison
		line.name, line.out = test.name+", and a line end", test.out+"\r\n"
		later.name, later.later = test.name+", and a response later", poison
		g.answers(t, []wireAnswer{at, line, later})
	}
	g.finish(t)
}
