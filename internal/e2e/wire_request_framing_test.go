package e2e

import (
	"testing"
)

// TestWireRequestFraming refuses whatever two readers could frame in two ways
// (RFC 9112 6): the known ways to smuggle a request.
func TestWireRequestFraming(t *testing.T) {
	g := newWireGroup(t)
	const body = "1\r\na\r\n0\r\n\r\n"
	coded := func(coding string) string { return wirePost("Transfer-Encoding:"+coding+"\r\n", body) }
	sized := func(length string) string { return wirePost("Content-Length:"+length+"\r\n", "a") }
	g.refusals(t, []wireRefusal{
		// Both.
		{"CL.TE", wirePost("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nX"), 400, "bad_request"},
		{"TE.CL", wirePost("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "5c\r\nGPOST"), 400, "bad_request"},
		{"CL.TE that agree", wirePost("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400, "bad_request"},
		{"0.TE", wirePost("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400, "bad_request"},
		{"CL.TE of GET", wireGet("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", 400, "bad_request"},
		{"CL.TE in other cases", wirePost("content-LENGTH: 6\r\ntransfer-ENCODING: CHUNKED\r\n", "0\r\n\r\nX"), 400, "bad_request"},
		{"CL.TE with Connection", wirePost("Connection: Content-Length\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nX"), 400, "bad_request"},
		{"CL and an unknown coding", wirePost("Content-Length: 1\r\nTransfer-Encoding: identity\r\n", "a"), 400, "bad_request"},
		{"CL.TE of HTTP/1.0", "POST /{n} HTTP/1.0\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX", 400, "bad_request"},

		// Lengths.
		{"two lengths", wirePost("Content-Length: 1\r\nContent-Length: 2\r\n", "ab"), 400, "bad_request"},
		{"two lengths, one of them 0", wirePost("Content-Length: 0\r\nContent-Length: 44\r\n", ""), 400, "bad_request"},
		{"two lengths of one value", wirePost("Content-Length: 1\r\nContent-Length: 01\r\n", "a"), 400, "bad_request"},
		{"two lengths apart", wirePost("Content-Length: 1\r\nX: y\r\ncontent-length: 2\r\n", "ab"), 400, "bad_request"},
		{"a list of lengths", sized(" 1, 2"), 400, "bad_request"},
		{"a list of equal lengths", sized(" 1, 1"), 400, "bad_request"},
		{"a list of equal lengths without spaces", sized(" 1,1"), 400, "bad_request"},
		{"a length and a comma", sized(" 1,"), 400, "bad_request"},
		{"an empty length", sized(" "), 400, "bad_request"},
		{"no length", sized(""), 400, "bad_request"},
		{"a length with a plus", sized(" +1"), 400, "bad_request"},
		{"a length with a minus", sized(" -1"), 400, "bad_request"},
		{"minus 0", sized(" -0"), 400, "bad_request"},
		{"a length in hex", sized(" 0x1"), 400, "bad_request"},
		{"a length of letters", sized(" a"), 400, "bad_request"},
		{"a length and a letter", sized(" 1a"), 400, "bad_request"},
		{"a length and another", sized(" 1 1"), 400, "bad_request"},
		{"a length with a point", sized(" 1.0"), 400, "bad_request"},
		{"a length with an exponent", sized(" 1e0"), 400, "bad_request"},
		{"a length with an underscore", sized(" 1_0"), 400, "bad_request"},
		{"a length in quotes", sized(" \"1\""), 400, "bad_request"},
		{"a length with a parameter", sized(" 1;x"), 400, "bad_request"},
		{"a length in other digits", sized(" \xd9\xa1"), 400, "bad_request"},
		{"a length behind a vertical tab", sized(" \x0b1"), 400, "bad_request"},
		{"a length of 20 digits", sized(" 99999999999999999999"), 400, "bad_request"},
		{"2 to the 63", sized(" 9223372036854775808"), 400, "bad_request"},
		{"2 to the 64 and 1", sized(" 18446744073709551617"), 400, "bad_request"},
		{"a length with a space before the colon", wirePost("Content-Length : 1\r\n", "a"), 400, "bad_request"},
		{"a folded length", wirePost("Content-Length:\r\n 1\r\n", "a"), 400, "bad_request"},
		{"two lengths of GET", wireGet("Content-Length: 1\r\nContent-Length: 2\r\n") + "ab", 400, "bad_request"},
		{"a bad length of GET", wireGet("Content-Length: x\r\n"), 400, "bad_request"},

		// Transfer codings.
		{"identity", coded(" identity"), 501, "not_implemented"},
		{"gzip", coded(" gzip"), 501, "not_implemented"},
		{"gzip, chunked", coded(" gzip, chunked"), 501, "not_implemented"},
		{"identity, chunked", coded(" identity, chunked"), 501, "not_implemented"},
		{"identity and chunked on two lines", wirePost("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", body), 501, "not_implemented"},
		{"xchunked", coded(" xchunked"), 501, "not_implemented"},
		{"chunk", coded(" chunk"), 501, "not_implemented"},
		{"chunkedchunked", coded(" chunkedchunked"), 501, "not_implemented"},
		{"a coding with a parameter", coded(" gzip;q=1, chunked"), 501, "not_implemented"},
		{"cow", wireGet("Transfer-Encoding: cow\r\n"), 501, "not_implemented"},
		{"chunked twice", coded(" chunked, chunked"), 400, "bad_request"},
		{"chunked twice without a space", coded(" chunked,chunked"), 400, "bad_request"},
		{"chunked on two lines", wirePost("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", body), 400, "bad_request"},
		{"TE.TE", wirePost("Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n", body), 400, "bad_request"},
		{"chunked and identity on two lines", wirePost("Transfer-Encoding: chunked\r\nTransfer-encoding: identity\r\n", body), 400, "bad_request"},
		{"chunked not last", coded(" chunked, gzip"), 400, "bad_request"},
		{"chunked and a comma", coded(" chunked,"), 400, "bad_request"},
		{"a comma and chunked", coded(" ,chunked"), 400, "bad_request"},
		{"no coding", coded(""), 400, "bad_request"},
		{"an empty coding", coded(" \t "), 400, "bad_request"},
		{"chunked and an empty line of it", wirePost("Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n", body), 400, "bad_request"},
		{"chunked with a parameter", coded(" chunked;q=1"), 400, "bad_request"},
		{"chunked in quotes", coded(" \"chunked\""), 400, "bad_request"},
		{"chunked in single quotes", coded(" 'chunked'"), 501, "not_implemented"},
		{"chunked and a word", coded(" chunked x"), 400, "bad_request"},
		{"a word and chunked", coded(" x chunked"), 400, "bad_request"},
		{"chunked behind a vertical tab", coded(" \x0bchunked"), 400, "bad_request"},
		{"chunked before a vertical tab", coded(" chunked\x0b"), 400, "bad_request"},
		{"chunked and a NUL", coded(" chunked\x00"), 400, "bad_request"},
		{"chunked behind a no-break space", coded(" \xa0chunked"), 400, "bad_request"},
		{"chunked behind a bare LF", coded("\n chunked"), 400, "bad_request"},
		{"chunked behind a bare CR", coded("\rchunked"), 400, "bad_request"},
		{"folded chunked", coded("\r\n chunked"), 400, "bad_request"},
		{"a space before the colon", wirePost("Transfer-Encoding : chunked\r\n", body), 400, "bad_request"},
		{"a tab before the colon", wirePost("Transfer-Encoding\t: chunked\r\n", body), 400, "bad_request"},
		{"a control in the name", wirePost("Transfer\x01-Encoding: chunked\r\n", body), 400, "bad_request"},
		{"chunked in a folded field", wirePost("X: y\r\n Transfer-Encoding: chunked\r\n", body), 400, "bad_request"},
		{"chunked behind a bare LF in a field", wirePost("X: y\nTransfer-Encoding: chunked\r\n", body), 400, "bad_request"},
		{"chunked in HTTP/1.0", "POST /{n} HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body, 400, "bad_request"},
		{"chunked in HTTP/1.0 that keeps alive", "POST /{n} HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + body, 400, "bad_request"},
		{"gzip in HTTP/1.0", "POST /{n} HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400, "bad_request"},

		// Trailer (RFC 9110 6.5.1).
		{"Trailer with Content-Length", wirePost("Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n", "0\r\nContent-Length: 1\r\n\r\n"), 400, "bad_request"},
		{"Trailer with Transfer-Encoding", wirePost("Trailer: X, transfer-encoding\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400, "bad_request"},
		{"Trailer with Trailer", wirePost("Trailer: Trailer\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400, "bad_request"},
	})
	g.finish(t)
}
