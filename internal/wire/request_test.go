package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/message"
)

// requestCase is the bytes of a request, with what stands behind its head, and
// what they mean: the rule they break, or the text of describeRequest.
type requestCase struct {
	name, raw string
	err       *Error
	want      string
}

// h is a Host line.
const h = "Host: x\r\n"

func get(lines string) string  { return "GET / HTTP/1.1\r\n" + h + lines + "\r\n" }
func post(lines string) string { return "POST / HTTP/1.1\r\n" + h + lines + "\r\n" }

// at is a request for a target.
func at(target string) string { return "GET " + target + " HTTP/1.1\r\n" + h + "\r\n" }

func lines(fields message.Fields) string {
	var out []string
	for _, field := range fields {
		if field.ID != message.Lookup(field.Name) {
			out = append(out, "wrong ID")
		}
		out = append(out, field.Name+": "+field.Value)
	}
	return strings.Join(out, "|")
}

func (f Framing) String() string {
	out := [...]string{"none", "sized", "chunked", "until close"}[f.Body]
	if f.Body == Sized {
		out += fmt.Sprint(" ", f.Length)
	}
	for word, said := range map[string]bool{" close": f.Close, " keep-alive": f.KeepAlive} { // never both
		if said {
			out += word
		}
	}
	if f.Expect {
		out += " expect"
	}
	if f.Upgrade {
		out += " upgrade"
	}
	if f.Length != 0 && f.Body == NoBody || f.Length != message.Unknown && (f.Body == ChunkedBody || f.Body == UntilClose) {
		out += " with a wrong length"
	}
	return out
}

func describeRequest(r *message.Request, f Framing) string {
	out := fmt.Sprintf("%s %s", r.Method, r.Path)
	if r.Query != "" {
		out += " " + r.Query
	}
	out += " @" + r.Host
	if r.Protocol != message.HTTP11 {
		out += " " + string(r.Protocol)
	}
	if r.Length != f.Length {
		out += " with a wrong length"
	}
	return out + " [" + lines(r.Fields) + "] " + f.String()
}

var requestCases = []requestCase{
	// Plain ones.
	{"plain", get(""), nil, "GET / @x [] none"},
	{"fields", get("A: 1\r\nb:2\r\nA:  3 \t\r\n"), nil, "GET / @x [A: 1|b: 2|A: 3] none"},
	{"pipelined", get("") + get(""), nil, "GET / @x [] none"},
	{"bytes behind", post("Content-Length: 3\r\n") + "abcdef", nil, "POST / @x [] sized 3"},
	{"LF behind", get("") + "\n\n\r\r", nil, "GET / @x [] none"},
	{"empty value", get("A:\r\nB: \r\nC:\t \r\n"), nil, "GET / @x [A: |B: |C: ] none"},
	{"tab in a value", get("A: a\tb\r\n"), nil, "GET / @x [A: a\tb] none"},
	{"tabs in a long value", get("A: aaaaaaaaaaaaaaaaa\tb\tccccccccccccccccccccccc\r\n"), nil, "GET / @x [A: aaaaaaaaaaaaaaaaa\tb\tccccccccccccccccccccccc] none"},
	{"obs-text in a value", get("A: \xe9\xff\x80\r\n"), nil, "GET / @x [A: \xe9\xff\x80] none"},
	{"colon in a value", get("A: :b:\r\n"), nil, "GET / @x [A: :b:] none"},
	{"quotes in a value", get("A: \"b\\\"\"\r\n"), nil, "GET / @x [A: \"b\\\"\"] none"},
	{"every kind of byte in a name", get("!#$%&'*+-.^_`|~09azAZ: 1\r\n"), nil, "GET / @x [!#$%&'*+-.^_`|~09azAZ: 1] none"},
	{"odd method", "!odd-1 / HTTP/1.1\r\n" + h + "\r\n", nil, "!odd-1 / @x [] none"},
	{"lower-case method", "get / HTTP/1.1\r\n" + h + "\r\n", nil, "get / @x [] none"},
	{"Host last", "GET / HTTP/1.1\r\nA: 1\r\nhOsT:x:80\r\n\r\n", nil, "GET / @x:80 [A: 1] none"},
	{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", nil, "GET / @ HTTP/1.0 [] none close"},
	{"HTTP/1.0 with Host", "GET / HTTP/1.0\r\n" + h + "\r\n", nil, "GET / @x HTTP/1.0 [] none close"},
	{"HTTP/1.0 with a body", "POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab", nil, "POST / @ HTTP/1.0 [] sized 2 close"},
	{"CRLF before", "\r\n" + get(""), nil, "GET / @x [] none"},

	// The connection.
	{"close", get("Connection: close\r\n"), nil, "GET / @x [Connection: close] none close"},
	{"close among others", get("Connection: a, CLOSE ,b\r\n"), nil, "GET / @x [Connection: a, CLOSE ,b] none close"},
	{"close in a later line", get("Connection: a\r\nConnection:\tclose\r\n"), nil, "GET / @x [Connection: a|Connection: close] none close"},
	{"closed is not close", get("Connection: closed, xclose\r\n"), nil, "GET / @x [Connection: closed, xclose] none"},
	{"keep-alive in HTTP/1.1", get("Connection: keep-alive\r\n"), nil, "GET / @x [Connection: keep-alive] none"},
	{"keep-alive in HTTP/1.0", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", nil, "GET / @ HTTP/1.0 [Connection: Keep-Alive] none keep-alive"},
	{"both in HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", nil, "GET / @ HTTP/1.0 [Connection: keep-alive, close] none close"},
	{"upgrade", get("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"), nil, "GET / @x [Connection: keep-alive, Upgrade|Upgrade: websocket] none upgrade"},
	{"Upgrade without Connection", get("Upgrade: websocket\r\n"), nil, "GET / @x [Upgrade: websocket] none"},
	{"Connection without Upgrade", get("Connection: upgrade\r\n"), nil, "GET / @x [Connection: upgrade] none"},
	{"upgrade in HTTP/1.0", "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n", nil, "GET / @ HTTP/1.0 [Connection: upgrade|Upgrade: a] none close"},
	{"expectation", post("Content-Length: 1\r\nExpect: 100-Continue\r\n"), nil, "POST / @x [Expect: 100-Continue] sized 1 expect"},
	{"expectation, chunked", post("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n"), nil, "POST / @x [Expect: 100-continue] chunked expect"},
	{"expectation without a body", get("Expect: 100-continue\r\n"), nil, "GET / @x [Expect: 100-continue] none"},
	{"expectation in HTTP/1.0", "POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", nil, "POST / @ HTTP/1.0 [Expect: 100-continue] sized 1 close"},
	{"another expectation", post("Content-Length: 1\r\nExpect: 100-continued\r\n"), nil, "POST / @x [Expect: 100-continued] sized 1"},

	// Targets.
	{"query", at("/a?b=c?d"), nil, "GET /a ?b=c?d @x [] none"},
	{"empty query", at("/a?"), nil, "GET /a ? @x [] none"},
	{"raw path", at("/a/../b//c;d=%2f%zz"), nil, "GET /a/../b//c;d=%2f%zz @x [] none"},
	{"two slashes", at("//a/b"), nil, "GET //a/b @x [] none"},
	{"odd characters", at("/\"<>\\^`{|}"), nil, "GET /\"<>\\^`{|} @x [] none"},
	{"raw UTF-8", at("/\xc3\xbc?\xc3\xbc"), nil, "GET /\xc3\xbc ?\xc3\xbc @x [] none"},
	{"absolute form", at("http://y:81/a?b"), nil, "GET /a ?b @y:81 [] none"},
	{"absolute form, upper case", at("HTTPS://Y/a"), nil, "GET /a @Y [] none"},
	{"absolute form without a path", at("http://y"), nil, "GET / @y [] none"},
	{"absolute form with a query only", at("http://y?a/b"), nil, "GET / ?a/b @y [] none"},
	{"absolute form, IPv6", at("http://[::1]:80/"), nil, "GET / @[::1]:80 [] none"},
	{"absolute form in HTTP/1.0", "GET http://y/ HTTP/1.0\r\n\r\n", nil, "GET / @y HTTP/1.0 [] none close"},
	{"asterisk", "OPTIONS * HTTP/1.1\r\n" + h + "\r\n", nil, "OPTIONS * @x [] none"},
	{"asterisk by absolute form", "OPTIONS http://y HTTP/1.1\r\n" + h + "\r\n", nil, "OPTIONS * @y [] none"},
	{"OPTIONS with a query", "OPTIONS http://y? HTTP/1.1\r\n" + h + "\r\n", nil, "OPTIONS / ? @y [] none"},
	{"CONNECT", "CONNECT y:80 HTTP/1.1\r\n" + h + "\r\n", nil, "CONNECT y:80 @y:80 [] none"},
	{"CONNECT to an odd name", "CONNECT *:1 HTTP/1.1\r\n" + h + "\r\n", nil, "CONNECT *:1 @*:1 [] none"},
	{"no slash", at("x"), ErrTargetForm, ""},
	{"a scheme alone", at("http:"), ErrTargetForm, ""},
	{"an opaque scheme", at("http:/a"), ErrTargetForm, ""},
	{"another scheme", at("ftp://y/"), ErrTargetForm, ""},
	{"an authority for GET", at("y:80"), ErrTargetForm, ""},
	{"asterisk for GET", at("*"), ErrTargetForm, ""},
	{"asterisk and more", "OPTIONS *a HTTP/1.1\r\n" + h + "\r\n", ErrTargetForm, ""},
	{"CONNECT with a path", "CONNECT / HTTP/1.1\r\n" + h + "\r\n", ErrTargetForm, ""},
	{"CONNECT with absolute form", "CONNECT http://y/ HTTP/1.1\r\n" + h + "\r\n", ErrTargetForm, ""},
	{"empty authority", at("http:///a"), ErrAuthority, ""},
	{"empty authority with a port", at("http://:80/a"), ErrAuthority, ""},
	{"user information", at("http://a@y/"), ErrAuthority, ""},
	{"bad port", at("http://y:8a/"), ErrAuthority, ""},
	{"escape in an authority", at("http://a%20b/"), ErrAuthority, ""},
	{"backslash in an authority", at("http://y\\z/"), ErrAuthority, ""},
	{"fragment", at("/a#b"), ErrTarget, ""},
	{"fragment in absolute form", at("http://y#b"), ErrTarget, ""},
	{"control in the target", at("/a\x01"), ErrTarget, ""},
	{"NUL in the target", at("/a\x00"), ErrTarget, ""},
	{"DEL in the target", at("/a\x7f"), ErrTarget, ""},
	{"tab in the target", at("/a\tb"), ErrTarget, ""},
	{"CR in the target", at("/a\rb"), ErrTarget, ""},

	// The request line.
	{"space in the target", at("/a b"), ErrRequestLine, ""},
	{"two spaces before the target", "GET  / HTTP/1.1\r\n" + h + "\r\n", ErrRequestLine, ""},
	{"two spaces before the version", "GET /  HTTP/1.1\r\n" + h + "\r\n", ErrRequestLine, ""},
	{"space behind the version", "GET / HTTP/1.1 \r\n" + h + "\r\n", ErrRequestLine, ""},
	{"space before the method", " GET / HTTP/1.1\r\n" + h + "\r\n", ErrRequestLine, ""},
	{"method alone", "GET\r\n\r\n", ErrRequestLine, ""},
	{"method and space", "GET \r\n\r\n", ErrRequestLine, ""},
	{"two empty lines before", "\r\n\r\n" + get(""), ErrRequestLine, ""},
	{"HTTP/0.9", "GET /\r\n\r\n", ErrNoVersion, ""},
	{"HTTP/0.9 with a space", "GET / \r\n\r\n", ErrVersion, ""},
	{"tab behind the method", "GET\t/ HTTP/1.1\r\n" + h + "\r\n", ErrMethod, ""},
	{"tab before the version", "GET /\tHTTP/1.1\r\n" + h + "\r\n", ErrNoVersion, ""},
	{"brackets in the method", "G[T / HTTP/1.1\r\n" + h + "\r\n", ErrMethod, ""},
	{"colon in the method", "GET: / HTTP/1.1\r\n" + h + "\r\n", ErrMethod, ""},
	{"byte over 127 in the method", "G\xcbT / HTTP/1.1\r\n" + h + "\r\n", ErrMethod, ""},
	{"CR in the method", "G\rT / HTTP/1.1\r\n" + h + "\r\n", ErrMethod, ""},
	{"NUL first", "\x00GET / HTTP/1.1\r\n" + h + "\r\n", ErrMethod, ""},
	{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ErrMethod, ""},
	{"bare CR before", "\rGET / HTTP/1.1\r\n" + h + "\r\n", ErrBareCR, ""},
	{"bare LF before", "\n" + get(""), ErrBareLF, ""},
	{"bare LF behind CRLF", "\r\n\n" + get(""), ErrBareLF, ""},
	{"lower-case version", "GET / http/1.1\r\n" + h + "\r\n", ErrVersion, ""},
	{"version without a minor", "GET / HTTP/1\r\n" + h + "\r\n", ErrVersion, ""},
	{"version with two digits", "GET / HTTP/1.10\r\n" + h + "\r\n", ErrVersion, ""},
	{"version with a zero in front", "GET / HTTP/01.1\r\n" + h + "\r\n", ErrVersion, ""},
	{"version with a comma", "GET / HTTP/1,1\r\n" + h + "\r\n", ErrVersion, ""},
	{"version with a letter", "GET / HTTP/1.x\r\n" + h + "\r\n", ErrVersion, ""},
	{"another protocol", "GET / ICAP/1.0\r\n" + h + "\r\n", ErrVersion, ""},
	{"CR behind the version", "GET / HTTP/1.1\r\r\n" + h + "\r\n", ErrVersion, ""},
	{"HTTP/1.2", "GET / HTTP/1.2\r\n" + h + "\r\n", ErrUnsupportedVersion, ""},
	{"HTTP/0.9 by name", "GET / HTTP/0.9\r\n" + h + "\r\n", ErrUnsupportedVersion, ""},
	{"HTTP/2.0", "GET / HTTP/2.0\r\n" + h + "\r\n", ErrUnsupportedVersion, ""},
	{"HTTP/3.0", "GET / HTTP/3.0\r\n" + h + "\r\n", ErrUnsupportedVersion, ""},
	{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ErrUnsupportedVersion, ""},
	{"bare LF behind the request line", "GET / HTTP/1.1\n" + h + "\r\n", ErrBareLF, ""},
	{"bare LF everywhere", "GET / HTTP/1.1\nHost: x\n\n", ErrBareLF, ""},

	// Field lines.
	{"bare LF behind a field", get("A: 1\nB: 2\r\n"), ErrBareLF, ""},
	{"bare LF as the empty line", "GET / HTTP/1.1\r\n" + h + "\n", ErrBareLF, ""},
	{"bare LF in a value's front", get("A:\n b\r\n"), ErrBareLF, ""},
	{"bare CR in a value", get("A: 1\rB: 2\r\n"), ErrBareCR, ""},
	{"bare CR at a value's end", get("A: 1\r\r\n"), ErrBareCR, ""},
	{"bare CR in a name", get("A\rB: 2\r\n"), ErrBareCR, ""},
	{"bare CR before a name", get("\rB: 2\r\n"), ErrBareCR, ""},
	{"CR CR LF as the empty line", "GET / HTTP/1.1\r\n" + h + "\r\r\n\r\n", ErrBareCR, ""},
	{"folded with a space", get("A: 1\r\n b\r\n"), ErrFold, ""},
	{"folded with a tab", get("A: 1\r\n\tb\r\n"), ErrFold, ""},
	{"folded to nothing", get("A: 1\r\n \r\n"), ErrFold, ""},
	{"space before the first field", "GET / HTTP/1.1\r\n " + h + "\r\n", ErrFold, ""},
	{"space before the colon", get("Content-Length : 1\r\n"), ErrNameSpace, ""},
	{"tab before the colon", get("A\t: 1\r\n"), ErrNameSpace, ""},
	{"space in a name", get("A B: 1\r\n"), ErrNameSpace, ""},
	{"no colon", get("abc\r\n"), ErrNoColon, ""},
	{"no name", get(": a\r\n"), ErrFieldName, ""},
	{"brackets in a name", get("X[0]: a\r\n"), ErrFieldName, ""},
	{"quotes in a name", get("\"X\": a\r\n"), ErrFieldName, ""},
	{"NUL in a name", get("X\x00: a\r\n"), ErrFieldName, ""},
	{"byte over 127 in a name", get("X\xe9: a\r\n"), ErrFieldName, ""},
	{"NUL in a value", get("A: a\x00b\r\n"), ErrFieldValue, ""},
	{"NUL in a long value", get("A: aaaaaaaaaaaaaaaaaa\x00bbbbbbbbbbbbbbbbbbb\r\n"), ErrFieldValue, ""},
	{"control in a value", get("A: a\x01b\r\n"), ErrFieldValue, ""},
	{"DEL in a value", get("A: a\x7f\r\n"), ErrFieldValue, ""},
	{"ESC in a value's front", get("A: \x1b[0m\r\n"), ErrFieldValue, ""},

	// Host.
	{"no Host", "GET / HTTP/1.1\r\n\r\n", ErrNoHost, ""},
	{"no Host with absolute form", "GET http://y/ HTTP/1.1\r\n\r\n", ErrNoHost, ""},
	{"two Hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", ErrTwoHosts, ""},
	{"equal Hosts", "GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", ErrTwoHosts, ""},
	{"two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", ErrTwoHosts, ""},
	{"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", ErrHost, ""},
	{"empty Host in HTTP/1.0", "GET / HTTP/1.0\r\nHost: \r\n\r\n", ErrHost, ""},
	{"path in Host", "GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", ErrHost, ""},
	{"user information in Host", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", ErrHost, ""},
	{"list in Host", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", ErrHost, ""},
	{"invalid Host with absolute form", "GET http://y/ HTTP/1.1\r\nHost: a b\r\n\r\n", ErrHost, ""},

	// The length.
	{"length 0", post("Content-Length: 0\r\n"), nil, "POST / @x [] none"},
	{"length with zeros in front", post("Content-Length: 0007\r\n"), nil, "POST / @x [] sized 7"},
	{"largest length", post("Content-Length: 9223372036854775807\r\n"), nil, "POST / @x [] sized 9223372036854775807"},
	{"equal lengths", post("Content-Length: 2\r\nA: 1\r\ncontent-length: 2\r\n"), nil, "POST / @x [A: 1] sized 2"},
	{"length in a GET", get("Content-Length: 2\r\n") + "ab", nil, "GET / @x [] sized 2"},
	{"unequal lengths", post("Content-Length: 1\r\nContent-Length: 2\r\n"), ErrLengths, ""},
	{"lengths spelled differently", post("Content-Length: 1\r\nContent-Length: 01\r\n"), ErrLengths, ""},
	{"list of lengths", post("Content-Length: 1, 2\r\n"), ErrLength, ""},
	{"list of equal lengths", post("Content-Length: 1, 1\r\n"), ErrLength, ""},
	{"length with a plus", post("Content-Length: +1\r\n"), ErrLength, ""},
	{"length with a minus", post("Content-Length: -1\r\n"), ErrLength, ""},
	{"length in hex", post("Content-Length: 0x1\r\n"), ErrLength, ""},
	{"length with a letter", post("Content-Length: 1a\r\n"), ErrLength, ""},
	{"length with a space", post("Content-Length: 1 2\r\n"), ErrLength, ""},
	{"length with a point", post("Content-Length: 1.0\r\n"), ErrLength, ""},
	{"length with an underscore", post("Content-Length: 1_0\r\n"), ErrLength, ""},
	{"empty length", post("Content-Length: \r\n"), ErrLength, ""},
	{"length one too large", post("Content-Length: 9223372036854775808\r\n"), ErrLength, ""},
	{"length of 64 bits", post("Content-Length: 18446744073709551617\r\n"), ErrLength, ""},
	{"huge length", post("Content-Length: 99999999999999999999\r\n"), ErrLength, ""},
	{"length in other digits", post("Content-Length: \xd9\xa1\r\n"), ErrLength, ""},

	// The transfer coding.
	{"chunked", post("Transfer-Encoding: chunked\r\n"), nil, "POST / @x [] chunked"},
	{"chunked, upper case", post("TRANSFER-ENCODING: ChunkeD\r\n"), nil, "POST / @x [] chunked"},
	{"length and coding", post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n"), ErrLengthAndCoding, ""},
	{"coding and length", post("Transfer-Encoding: chunked\r\nContent-Length: 6\r\n"), ErrLengthAndCoding, ""},
	{"coding and length 0", post("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"), ErrLengthAndCoding, ""},
	{"coding and length, unknown", post("Transfer-Encoding: gzip\r\nContent-Length: 1\r\n"), ErrLengthAndCoding, ""},
	{"coding in HTTP/1.0", "POST / HTTP/1.0\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n", ErrCodingIn10, ""},
	{"identity", post("Transfer-Encoding: identity\r\n"), ErrUnknownCoding, ""},
	{"xchunked", post("Transfer-Encoding: xchunked\r\n"), ErrUnknownCoding, ""},
	{"gzip", post("Transfer-Encoding: gzip\r\n"), ErrUnknownCoding, ""},
	{"gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n"), ErrUnknownCoding, ""},
	{"gzip, then chunked", post("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), ErrUnknownCoding, ""},
	{"a coding with a parameter", post("Transfer-Encoding: gzip;q=1, chunked\r\n"), ErrUnknownCoding, ""},
	{"chunked, gzip", post("Transfer-Encoding: chunked, gzip\r\n"), ErrChunkedNotLast, ""},
	{"chunked twice", post("Transfer-Encoding: chunked, chunked\r\n"), ErrChunkedNotLast, ""},
	{"chunked in two lines", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), ErrChunkedNotLast, ""},
	{"chunked, then identity", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), ErrChunkedNotLast, ""},
	{"chunked with a comma behind", post("Transfer-Encoding: chunked,\r\n"), ErrChunkedNotLast, ""},
	{"chunked with a comma before", post("Transfer-Encoding: , chunked\r\n"), ErrCoding, ""},
	{"chunked with a parameter", post("Transfer-Encoding: chunked;a=b\r\n"), ErrCoding, ""},
	{"chunked in quotes", post("Transfer-Encoding: \"chunked\"\r\n"), ErrCoding, ""},
	{"chunked with a space", post("Transfer-Encoding: chun ked\r\n"), ErrCoding, ""},
	{"empty coding", post("Transfer-Encoding:\r\n"), ErrCoding, ""},
	{"vertical tab before chunked", post("Transfer-Encoding: \x0bchunked\r\n"), ErrFieldValue, ""},
	{"NUL behind chunked", post("Transfer-Encoding: chunked\x00\r\n"), ErrFieldValue, ""},
	{"chunked in Latin-1", post("Transfer-Encoding: chunked\xa0\r\n"), ErrCoding, ""},
	{"an underscore in the name", post("Transfer_Encoding: chunked\r\n"), nil, "POST / @x [Transfer_Encoding: chunked] none"},
	{"announced trailers", post("Transfer-Encoding: chunked\r\nTrailer: A, B\r\n"), nil, "POST / @x [Trailer: A, B] chunked"},
	{"announced framing", post("Transfer-Encoding: chunked\r\nTrailer: A, content-length\r\n"), ErrTrailerName, ""},

	// Of several faults, the first in order.
	{"start line before line ends", "GET / HTTP/3.0\r\nA: 1\n\r\n", ErrUnsupportedVersion, ""},
	{"line ends before fields", "GET / HTTP/1.1\r\nA B: 1\r\nC: 1\n\r\n", ErrBareLF, ""},
	{"fields in order", get("A: \x00\r\nB : 1\r\n"), ErrFieldValue, ""},
	{"fields before Host", "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", ErrLength, ""},
	{"Host before framing", "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", ErrNoHost, ""},
	{"version before target", "GET x HTTP/2.0\r\n\r\n", ErrUnsupportedVersion, ""},
	{"method before version", "G(T / HTTP/2.0\r\n\r\n", ErrMethod, ""},
}

// limitedCases are read under limits.
var limitedCases = []struct {
	limits Limits
	requestCase
}{
	{Limits{URIBytes: 3}, requestCase{"target fits", at("/ab"), nil, "GET /ab @x [] none"}},
	{Limits{URIBytes: 3}, requestCase{"target one too long", at("/abc"), ErrURITooLong, ""}},
	{Limits{URIBytes: 3}, requestCase{"target too long, no version", "GET /abc\r\n\r\n", ErrURITooLong, ""}},
	{Limits{URIBytes: 3}, requestCase{"target too long, no end", "GET /abcdefghijk", ErrURITooLong, ""}},
	{Limits{URIBytes: 3}, requestCase{"target too long, bare LF", "GET /abc HTTP/1.1\n", ErrURITooLong, ""}},
	{Limits{URIBytes: 3}, requestCase{"target fits, bare LF", "GET /ab\n", ErrBareLF, ""}},
	{Limits{URIBytes: 3}, requestCase{"target fits with its line end", "GET /ab\r\n\r\n", ErrNoVersion, ""}},
	{Limits{URIBytes: 3}, requestCase{"target too long by a CR", "GET /ab\r\r\n\r\n", ErrURITooLong, ""}},
	{Limits{URIBytes: 3}, requestCase{"method before too long", "G[T /abcdef HTTP/1.1\r\n\r\n", ErrMethod, ""}},
	{Limits{URIBytes: 3}, requestCase{"too long before version", at("/abcdef")[:12] + "X\r\n\r\n", ErrURITooLong, ""}},
	{Limits{URIBytes: 3, HeaderBytes: 10}, requestCase{"target too long within the head", at("/abcdefghijklmn"), ErrURITooLong, ""}},
	{Limits{URIBytes: 30, HeaderBytes: 10}, requestCase{"head too large within the target", at("/abcdefghijklmn"), ErrHeaderTooLarge, ""}},
	{Limits{HeaderBytes: len(get(""))}, requestCase{"head fits", get("") + "behind", nil, "GET / @x [] none"}},
	{Limits{HeaderBytes: len(get(""))}, requestCase{"empty line does not count", "\r\n" + get(""), nil, "GET / @x [] none"}},
	{Limits{HeaderBytes: len(get("")) - 1}, requestCase{"head one too large", get(""), ErrHeaderTooLarge, ""}},
	{Limits{HeaderBytes: 40}, requestCase{"head too large, no end", "GET / HTTP/1.1\r\nA: " + strings.Repeat("a", 40), ErrHeaderTooLarge, ""}},
	{Limits{HeaderBytes: 40}, requestCase{"bare LF before the limit", "GET / HTTP/1.1\r\nA: \nB: " + strings.Repeat("a", 40), ErrBareLF, ""}},
	{Limits{HeaderBytes: 20}, requestCase{"bare LF behind the limit", "GET / HTTP/1.1\r\nA: bbbbbbbbbbbbb\nB: 1\r\n\r\n", ErrHeaderTooLarge, ""}},
	{Limits{HeaderBytes: 20}, requestCase{"version before the limit", "GET / HTTP/3.0\r\nA: bbbbbbbbbbbbb\r\n\r\n", ErrUnsupportedVersion, ""}},
	{Limits{HeaderBytes: 1}, requestCase{"head of one byte", get(""), ErrHeaderTooLarge, ""}},
	{Limits{HeaderBytes: 20}, requestCase{"endless method", strings.Repeat("A", 30), ErrHeaderTooLarge, ""}},
	{Limits{Headers: 2}, requestCase{"fields fit", get("A: 1\r\n"), nil, "GET / @x [A: 1] none"}},
	{Limits{Headers: 2}, requestCase{"one field too many", get("A: 1\r\nB: 1\r\n"), ErrTooManyFields, ""}},
	{Limits{Headers: 2}, requestCase{"a bad field before too many", get("A: 1\r\nB : 1\r\nC: 1\r\n"), ErrTooManyFields, ""}},
	{Limits{Headers: 2}, requestCase{"a bad field before the last", get("A : 1\r\nB: 1\r\n"), ErrNameSpace, ""}},
}

// everyRequest are all cases.
func everyRequest(yield func(requestCase, Limits) bool) {
	for _, c := range requestCases {
		if !yield(c, Limits{}) {
			return
		}
	}
	for _, c := range limitedCases {
		if !yield(c.requestCase, c.limits) {
			return
		}
	}
}

// feedRequest gives RequestHead the data as it comes: cut at the given places.
func feedRequest(t testing.TB, data string, limits Limits, cuts ...int) (r message.Request, n int, f Framing, err error) {
	t.Helper()
	var scan Scan
	for _, cut := range append(cuts, len(data)) {
		r = message.Request{}
		// The capacity ends with the data: nothing may look behind it.
		n, f, err = RequestHead(&r, []byte(data[:cut]), &scan, limits)
		if n != 0 || err != nil {
			break
		}
	}
	if err != nil && n != 0 {
		t.Errorf("%q: an error, and %d bytes", data, n)
	}
	return r, n, f, err
}

// headEnd is where the head of a request ends that is accepted.
func headEnd(raw string) int {
	start := 0
	if strings.HasPrefix(raw, "\r\n") {
		start = 2
	}
	return start + strings.Index(raw[start:], "\r\n\r\n") + 4
}

func checkRequest(t *testing.T, c requestCase, limits Limits, cuts ...int) {
	t.Helper()
	r, n, f, err := feedRequest(t, c.raw, limits, cuts...)
	if c.err != nil {
		if !errors.Is(err, c.err) {
			t.Errorf("%s, cut at %v: n %d, error %v, want %v", c.name, cuts, n, err, c.err)
		}
		return
	}
	if err != nil || n != headEnd(c.raw) || describeRequest(&r, f) != c.want {
		t.Errorf("%s, cut at %v: n %d, error %v\n got %s\nwant %s", c.name, cuts, n, err, describeRequest(&r, f), c.want)
	}
}

func TestRequestHead(t *testing.T) {
	names := map[string]bool{}
	for c, limits := range everyRequest {
		if names[c.name] {
			t.Errorf("two cases are named %s", c.name)
		}
		names[c.name] = true
		checkRequest(t, c, limits)
	}
}

func TestRequestHeadAtEverySplit(t *testing.T) {
	for c, limits := range everyRequest {
		var every []int
		for cut := range len(c.raw) {
			every = append(every, cut)
			checkRequest(t, c, limits, cut)
		}
		checkRequest(t, c, limits, every...)
	}
}

// What was looked at is not looked at again, but for the first bytes and the last
// ones: a head that comes byte by byte costs no more than its bytes.
func TestHeadsAreReadOnce(t *testing.T) {
	const first, last, many = 8, 3, 200
	for name, raw := range map[string]string{
		"method":      strings.Repeat("M", many),
		"target":      "GET /" + strings.Repeat("t", many) + " HTTP/1.1",
		"short":       "GET / " + strings.Repeat("v", many),
		"fields":      "GET /" + strings.Repeat("t", many) + " HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", many) + "C: " + strings.Repeat("d", many),
		"empty line":  "\r\nGET /" + strings.Repeat("t", many) + " HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", many),
		"reason":      "HTTP/1.1 200 " + strings.Repeat("r", many),
		"status line": "HTTP/1.1 200 " + strings.Repeat("r", many) + "\r\n" + strings.Repeat("A: b\r\n", many),
	} {
		t.Run(name, func(t *testing.T) {
			var scan Scan
			data := []byte(raw)
			line := strings.IndexByte(raw[first:], '\n') + first // the start line is read once it has ended
			for cut := range data {
				var n int
				var err error
				if strings.HasPrefix(raw, "HTTP") {
					n, _, err = ResponseHead(new(message.Response), data[:cut], &scan, "GET", Limits{})
				} else {
					n, _, err = RequestHead(new(message.Request), data[:cut], &scan, Limits{HeaderBytes: 1 << 20, URIBytes: 2 * many})
				}
				if n != 0 || err != nil {
					t.Fatalf("after %d bytes: %d, %v", cut, n, err)
				}
				if cut > line || line < first {
					for i := first; i < cut-last; i++ {
						data[i] = '\n'
					}
				}
			}
		})
	}
}

// A head without its end is no fault, whatever it is cut from.
func TestRequestHeadWaits(t *testing.T) {
	for c, limits := range everyRequest {
		if c.err != nil {
			continue
		}
		for cut := range headEnd(c.raw) {
			if _, n, _, err := feedRequest(t, c.raw[:cut], limits); n != 0 || err != nil {
				t.Errorf("%s, its first %d bytes: n %d, error %v", c.name, cut, n, err)
			}
		}
	}
}

// What can be told early is told early: nobody waits for a time-out to learn
// that it speaks another protocol.
func TestRequestFaultsShowEarly(t *testing.T) {
	for raw, want := range map[string]error{
		"\x16": ErrMethod, "\x00": ErrMethod, "G[": ErrMethod, "GET\t": ErrMethod, "\rG": ErrBareCR, "\n": ErrBareLF,
		"GET /\r\n": ErrNoVersion, "PRI * HTTP/2.0\r\n": ErrUnsupportedVersion, "GET x HTTP/1.1\r\n": ErrTargetForm,
		"GET / HTTP/1.1\n": ErrBareLF, "GET / HTTP/1.1\r\nA: b\n": ErrBareLF, "GET / HTTP/1.1\r\n\n": ErrBareLF, "\r\n\r\n": ErrRequestLine,
	} {
		var cuts []int
		for cut := range len(raw) {
			cuts = append(cuts, cut)
		}
		for _, cuts := range [][]int{nil, cuts} {
			if _, _, _, err := feedRequest(t, raw, Limits{}, cuts...); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", raw, err, want)
			}
		}
	}
}

// A refusal can be logged with what was asked for.
func TestRequestHeadTellsOfASoundStartLine(t *testing.T) {
	for _, c := range []struct {
		raw  string
		err  error
		want string
	}{
		{"GET /a?b HTTP/1.1\r\n\r\n", ErrNoHost, "GET HTTP/1.1 /a ?b "},
		{"GET http://y/a?b HTTP/1.0\r\nA B: 1\r\n\r\n", ErrNameSpace, "GET HTTP/1.0 /a ?b y"},
		{"GET /a HTTP/1.1\r\n" + h + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", ErrLengthAndCoding, "GET HTTP/1.1 /a  x"},
		{"GET /a HTTP/1.1\r\nA: 1\n", ErrBareLF, "GET HTTP/1.1 /a  "},
		{"GET /a HTTP/1.1\r\nA: " + strings.Repeat("1", 80), ErrHeaderTooLarge, "GET HTTP/1.1 /a  "},
		{"GET /a HTTP/3.0\r\n", ErrUnsupportedVersion, "    "},
	} {
		var every []int
		for cut := range len(c.raw) {
			every = append(every, cut)
		}
		for _, cuts := range [][]int{nil, every} {
			r, _, _, err := feedRequest(t, c.raw, Limits{HeaderBytes: 80}, cuts...)
			got := strings.Join([]string{r.Method, string(r.Protocol), r.Path, r.Query, r.Host}, " ")
			if !errors.Is(err, c.err) || got != c.want || r.Fields != nil {
				t.Errorf("%q: %v, %q, want %v, %q", c.raw, err, got, c.err, c.want)
			}
		}
	}
}

func TestRequestHeadUsesTheArrayItIsGiven(t *testing.T) {
	var array [4]message.Field
	r := message.Request{Fields: array[:0]}
	if _, _, err := RequestHead(&r, []byte(get("A: 1\r\nB: 2\r\n")), new(Scan), Limits{}); err != nil {
		t.Fatal(err)
	}
	if len(r.Fields) != 2 || &r.Fields[0] != &array[0] {
		t.Errorf("%d fields, elsewhere", len(r.Fields))
	}
}

func TestRequestHeadKeepsNothingOfTheBuffer(t *testing.T) {
	data := []byte(get("A: 1\r\n"))
	var r message.Request
	_, f, err := RequestHead(&r, data, new(Scan), Limits{})
	for i := range data {
		data[i] = '#'
	}
	if got := describeRequest(&r, f); err != nil || got != "GET / @x [A: 1] none" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestRequestHeadAllocatesOneString(t *testing.T) {
	for name, raw := range map[string]string{"browser": browser, "small": small} {
		data := []byte(raw)
		var array [32]message.Field
		r := new(message.Request)
		if n := testing.AllocsPerRun(100, func() {
			*r = message.Request{Fields: array[:0]}
			if n, _, err := RequestHead(r, data, new(Scan), Limits{HeaderBytes: 64 << 10, Headers: 100, URIBytes: 16 << 10}); n != len(data) || err != nil {
				t.Fatal(n, err)
			}
		}); n != 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	data := []byte("GET / HTTP/1.1\r\n" + h)
	if n := testing.AllocsPerRun(100, func() {
		if n, _, err := RequestHead(new(message.Request), data, new(Scan), Limits{}); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("a part of a head: %v allocations", n)
	}
}

func TestManyFieldsMakeOneArray(t *testing.T) {
	data := []byte(get(strings.Repeat("A: 1\r\n", 90)))
	if n := testing.AllocsPerRun(20, func() {
		if n, _, err := RequestHead(new(message.Request), data, new(Scan), Limits{}); n == 0 || err != nil {
			t.Fatal(n, err)
		}
	}); n > 3 { // the request, the string, the array
		t.Errorf("%v allocations", n)
	}
}
