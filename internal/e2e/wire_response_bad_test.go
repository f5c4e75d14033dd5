package e2e

import (
	"strings"
	"testing"
)

// TestWireResponsesThatAreNone: what is no response, or could be read in two
// ways, gives 502 upstream_protocol; a connection that ends before the response
// is there, 502 upstream_reset. Neither is used again.
func TestWireResponsesThatAreNone(t *testing.T) {
	g := newWireGroup(t)
	g.endpoint.closes = true // so that each case has a connection that has not served: nothing is sent again
	const (
		ok    = "HTTP/1.1 200 OK\r\n"
		body  = "Content-Length: 2\r\n\r\nok"
		codes = "\r\n2\r\nok\r\n0\r\n\r\n"
		head  = "HEAD /{n} HTTP/1.1\r\nHost: x\r\n\r\n"
	)
	line := func(text string) string { return text + "\r\n" + body }
	g.faults(t, []wireFault{
		// Other protocols.
		{name: "a greeting", out: "hello\r\n\r\n"},
		{name: "content alone", out: "<html>hello</html>"},
		{name: "an empty line", out: "\r\n" + ok + body},
		{name: "TLS", out: "\x15\x03\x01\x00\x02\x02\x0a"},
		{name: "SSH", out: "SSH-2.0-OpenSSH_9.2\r\n"},
		{name: "HTTP/2", out: "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"},
		{name: "ICY", out: line("ICY 200 OK")},
		{name: "a request", out: "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{name: "NUL", out: "\x00" + ok + body},

		// Status lines (RFC 9112 4).
		{name: "HTTP/0.9", out: line("HTTP/0.9 200 OK")},
		{name: "HTTP/1.2", out: line("HTTP/1.2 200 OK")},
		{name: "HTTP/2.0", out: line("HTTP/2.0 200 OK")},
		{name: "a version in lower case", out: line("http/1.1 200 OK")},
		{name: "a version of one digit", out: line("HTTP/1 200 OK")},
		{name: "a version of three digits", out: line("HTTP/1.10 200 OK")},
		{name: "no space", out: line("HTTP/1.1200 OK")},
		{name: "two spaces", out: line("HTTP/1.1  200 OK")},
		{name: "a tab", out: line("HTTP/1.1\t200 OK")},
		{name: "a space before", out: line(" HTTP/1.1 200 OK")},
		{name: "no status", out: line("HTTP/1.1 ")},
		{name: "no status and no space", out: line("HTTP/1.1")},
		{name: "a status of 2 digits", out: line("HTTP/1.1 20 OK")},
		{name: "a status of 4 digits", out: line("HTTP/1.1 2000 OK")},
		{name: "a status of letters", out: line("HTTP/1.1 2xx OK")},
		{name: "a status with a sign", out: line("HTTP/1.1 +20 OK")},
		{name: "a status with a point", out: line("HTTP/1.1 200.1 OK")},
		{name: "status 000", out: line("HTTP/1.1 000 OK")},
		{name: "status 099", out: line("HTTP/1.1 099 OK")},
		{name: "status 600", out: line("HTTP/1.1 600 OK")},
		{name: "status 999", out: line("HTTP/1.1 999 OK")},
		{name: "a NUL in the reason", out: line("HTTP/1.1 200 O\x00K")},
		{name: "a bare CR in the reason", out: line("HTTP/1.1 200 O\rK")},
		{name: "a bare LF for the line end", out: "HTTP/1.1 200 OK\n" + body},
		{name: "bare LF everywhere", out: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"},

		// Fields.
		{name: "a bare LF", out: ok + "X: y\nZ: y\r\n" + body},
		{name: "a bare LF for the empty line", out: ok + "Content-Length: 2\r\n\nok"},
		{name: "a bare CR", out: ok + "X: y\rz\r\n" + body},
		{name: "two CR", out: ok + "X: y\r\r\n" + body},
		{name: "a NUL in a value", out: ok + "X: y\x00\r\n" + body},
		{name: "a control in a value", out: ok + "X: \x01y\r\n" + body},
		{name: "a DEL in a value", out: ok + "X: y\x7f\r\n" + body},
		{name: "a folded field", out: ok + "X: y\r\n z\r\n" + body},
		{name: "a folded first field", out: ok + " X: y\r\n" + body},
		{name: "a space before the colon", out: ok + "X : y\r\n" + body},
		{name: "no colon", out: ok + "X\r\n" + body},
		{name: "no name", out: ok + ": y\r\n" + body},
		{name: "a name with brackets", out: ok + "X[0]: y\r\n" + body},
		{name: "a name that is not ASCII", out: ok + "X\xc3\xa9: y\r\n" + body},
		{name: "a second status line", out: ok + "HTTP/1.1 200 OK\r\n" + body},
		{name: "a head of 300 KB", out: ok + "X: " + strings.Repeat("y", 300_000) + "\r\n" + body},
		{name: "a head of 300 KB that does not end", out: ok + "X: " + strings.Repeat("y", 300_000)},
		{name: "a head of 300 KB in many fields", out: ok + strings.Repeat("X: "+strings.Repeat("y", 290)+"\r\n", 1000) + body},

		// Framing.
		{name: "CL.TE", out: ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{name: "TE.CL", out: ok + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n" + codes},
		{name: "CL.TE to HEAD", ask: head, out: ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{name: "CL.TE on 204", out: "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{name: "CL.TE on 304", out: "HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{name: "two lengths", out: ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
		{name: "two lengths of one value", out: ok + "Content-Length: 2\r\nContent-Length: 02\r\n\r\nok"},
		{name: "two lengths to HEAD", ask: head, out: ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"},
		{name: "two lengths on 304", out: "HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"},
		{name: "a list of lengths", out: ok + "Content-Length: 2, 3\r\n\r\nok"},
		{name: "a list of equal lengths", out: ok + "Content-Length: 2, 2\r\n\r\nok"},
		{name: "an empty length", out: ok + "Content-Length: \r\n\r\n"},
		{name: "a length with a plus", out: ok + "Content-Length: +2\r\n\r\nok"},
		{name: "a length with a minus", out: ok + "Content-Length: -2\r\n\r\nok"},
		{name: "a length in hex", out: ok + "Content-Length: 0x2\r\n\r\nok"},
		{name: "a length and a letter", out: ok + "Content-Length: 2b\r\n\r\nok"},
		{name: "a length of 20 digits", out: ok + "Content-Length: 99999999999999999999\r\n\r\nok"},
		{name: "2 to the 63", out: ok + "Content-Length: 9223372036854775808\r\n\r\nok"},
		{name: "2 to the 64 and 2", out: ok + "Content-Length: 18446744073709551618\r\n\r\nok"},
		{name: "a bad length on 204", out: "HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\n"},
		{name: "identity", out: ok + "Transfer-Encoding: identity\r\n\r\nok"},
		{name: "gzip", out: ok + "Transfer-Encoding: gzip\r\n\r\nok"},
		{name: "gzip, chunked", out: ok + "Transfer-Encoding: gzip, chunked\r\n" + codes},
		{name: "chunked, gzip", out: ok + "Transfer-Encoding: chunked, gzip\r\n" + codes},
		{name: "chunked twice", out: ok + "Transfer-Encoding: chunked, chunked\r\n" + codes},
		{name: "chunked on two lines", out: ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + codes},
		{name: "chunked with a parameter", out: ok + "Transfer-Encoding: chunked;x=y\r\n" + codes},
		{name: "no coding", out: ok + "Transfer-Encoding:\r\n" + codes},
		{name: "xchunked", out: ok + "Transfer-Encoding: xchunked\r\n" + codes},
		{name: "chunked behind a vertical tab", out: ok + "Transfer-Encoding: \x0bchunked\r\n" + codes},
		{name: "a space before the colon of the coding", out: ok + "Transfer-Encoding : chunked\r\n" + codes},
		{name: "chunked of HTTP/1.0", out: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n" + codes},
		{name: "Trailer with Content-Length", out: ok + "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n" + codes},

		// Informational responses.
		{name: "101 that nobody asked for", out: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: y\r\n\r\n"},
		{name: "101 to another protocol", ask: wireGet("Connection: Upgrade\r\nUpgrade: y\r\n"), out: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: z\r\n\r\n"},
		{name: "101 without Upgrade", ask: wireGet("Connection: Upgrade\r\nUpgrade: y\r\n"), out: "HTTP/1.1 101 Switching Protocols\r\n\r\n"},
		{name: "chunked on 103", out: "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n" + codes + ok + body},
		{name: "a bad length on 103", out: "HTTP/1.1 103 Early Hints\r\nContent-Length: x\r\n\r\n" + ok + body},
		{name: "a folded field on 103", out: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n y\r\n\r\n" + ok + body},
		{name: "a bad response behind a 103", out: "HTTP/1.1 103 Early Hints\r\n\r\nhello\r\n"},
		{name: "too many", out: strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 65) + ok + body},
		{name: "too many of 100", out: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100) + ok + body},

		// No response at all.
		{name: "a close", end: "close", word: "upstream_reset"},
		{name: "a reset", end: "reset", word: "upstream_reset"},
		{name: "a close of HEAD", ask: head, end: "close", word: "upstream_reset"},
		{name: "a close of POST", ask: wirePost("Content-Length: 1\r\n", "a"), end: "close", word: "upstream_reset"},
		{name: "a close in the version", out: "HTT", end: "close", word: "upstream_reset"},
		{name: "a close in the status line", out: "HTTP/1.1 2", end: "close", word: "upstream_reset"},
		{name: "a close in a field", out: ok + "X: ", end: "close", word: "upstream_reset"},
		{name: "a reset in a field", out: ok + "X: ", end: "reset", word: "upstream_reset"},
		{name: "a close before the empty line", out: ok + "Content-Length: 0\r\n", end: "close", word: "upstream_reset"},
		{name: "a close behind a 103", out: "HTTP/1.1 103 Early Hints\r\n\r\n", end: "close", word: "upstream_reset"},
	})
	g.finish(t)
}

// TestWireResponsesThatTear: what is bad shows when the client has the head and
// some content. It must see that the rest is missing.
func TestWireResponsesThatTear(t *testing.T) {
	g := newWireGroup(t)
	g.endpoint.closes = true
	const (
		sized   = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin"
		chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n"
		open    = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin"
		ends    = "HTTP/1.1 200 OK\r\n\r\nbegin"
		last    = "0\r\n\r\n"
		lost    = "upstream_reset"
		bad     = "upstream_protocol"
	)
	tests := []wireTorn{
		{name: "a close in a length", out: sized, end: "close", word: lost},
		{name: "a reset in a length", out: sized, end: "reset", word: lost},
		{name: "a close before the last chunk", out: chunked, end: "close", word: lost},
		{name: "a reset before the last chunk", out: chunked, end: "reset", word: lost},
		{name: "a close in a chunk", out: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nbegin", end: "close", word: lost},
		{name: "a close in a size", out: chunked, later: "1", end: "close", word: lost},
		{name: "a close behind a size", out: chunked, later: "5\r\n", end: "close", word: lost},
		{name: "a close in the last chunk", out: chunked, later: "0\r\n", end: "close", word: lost},
		{name: "a close in the trailer", out: chunked, later: "0\r\nX: y\r\n", end: "close", word: lost},
		{name: "a reset where the connection ends the content", out: ends, end: "reset", word: lost},
		{name: "a size of letters", out: chunked, later: "zz\r\n" + last, word: bad},
		{name: "no size", out: chunked, later: "\r\n" + last, word: bad},
		{name: "a size with 0x", out: chunked, later: "0x1\r\na\r\n" + last, word: bad},
		{name: "a size with a minus", out: chunked, later: "-1\r\na\r\n" + last, word: bad},
		{name: "a size of 17 digits", out: chunked, later: "00000000000000000\r\n\r\n", word: bad},
		{name: "a size of 2 to the 64", out: chunked, later: "10000000000000000\r\na\r\n" + last, word: bad},
		{name: "a size of 2 to the 63", out: chunked, later: "8000000000000000\r\na\r\n" + last, word: bad},
		{name: "a space behind a size", out: chunked, later: "0 \r\n\r\n", word: bad},
		{name: "a bare LF behind a size", out: chunked, later: "0\n\r\n", word: bad},
		{name: "a bare LF for the empty line", out: chunked, later: "0\r\n\n", word: bad},
		{name: "a bare LF in an extension", out: chunked, later: "0;a\nb\r\n\r\n", word: bad},
		{name: "a NUL in an extension", out: chunked, later: "0;\x00\r\n\r\n", word: bad},
		{name: "an endless extension", out: chunked, later: "0;" + strings.Repeat("x", 300_000), word: bad},
		{name: "a chunk that is longer", out: open, later: "XX" + last, word: bad},
		{name: "a bare LF behind a chunk", out: open, later: "\n" + last, word: bad},
		{name: "a bare CR behind a chunk", out: open, later: "\r" + last, word: bad},
		{name: "a trailer without a colon", out: chunked, later: "0\r\nX\r\n\r\n", word: bad},
		{name: "a folded trailer", out: chunked, later: "0\r\nX: y\r\n z\r\n\r\n", word: bad},
		{name: "a NUL in a trailer", out: chunked, later: "0\r\nX: \x00\r\n\r\n", word: bad},
		{name: "a bare LF behind a trailer", out: chunked, later: "0\r\nX: y\n\r\n", word: bad},
		{name: "a long trailer", out: chunked, later: "0\r\nX: " + strings.Repeat("y", 300_000) + "\r\n\r\n", word: bad},
	}
	g.torn(t, "HTTP/1.1", tests)
	g.torn(t, "HTTP/1.0", tests)
	g.finish(t)
}
