package wire

import (
	"errors"
	"strings"
	"testing"

	"sluice/internal/message"
)

// chunkedCases are bodies in the chunked coding, with what may stand behind.
var chunkedCases = []struct {
	name, raw string
	err       *Error
	payload   string
	trailer   string
	rest      string // what stands behind; "…" for a body that does not end
}{
	{"empty", "0\r\n\r\n", nil, "", "", ""},
	{"one", "3\r\nabc\r\n0\r\n\r\n", nil, "abc", "", ""},
	{"several", "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\nGET", nil, "abcd", "", "GET"},
	{"hex in both cases", "a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n", nil, "01234567890123456789a", "", ""},
	{"zeros in front", "0000000000000003\r\nabc\r\n0000\r\n\r\n", nil, "abc", "", ""},
	{"line ends in the payload", "4\r\n\r\n\r\n\r\n0\r\n\r\n", nil, "\r\n\r\n", "", ""},
	{"extensions", "3;a=b;c=\"d\"\r\nabc\r\n0;e\r\n\r\n", nil, "abc", "", ""},
	{"empty extension", "3;\r\nabc\r\n0;\r\n\r\n", nil, "abc", "", ""},
	{"extension with a tab and over 127", "3;\t a = \xff\r\nabc\r\n0\r\n\r\n", nil, "abc", "", ""},
	{"trailer", "1\r\na\r\n0\r\nX: 1\r\ny:\t2 \r\n\r\n", nil, "a", "X: 1|y: 2", ""},
	{"no end", "3\r\nab", nil, "ab", "", "…"},
	{"no last chunk", "3\r\nabc\r\n", nil, "abc", "", "…"},
	{"no last line", "0\r\nA: 1\r\n", nil, "", "", "…"},
	{"largest size", "0fffffffffffffff\r\nab", nil, "ab", "", "…"},

	{"no size", "\r\n", ErrChunkSize, "", "", ""},
	{"extension without a size", ";a\r\n", ErrChunkSize, "", "", ""},
	{"size of 17 digits", "00000000000000001\r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"size of 61 bits", "1000000000000000\r\nab", ErrChunkSize, "", "", ""},
	{"size of 63 bits", "7fffffffffffffff\r\nab", ErrChunkSize, "", "", ""},
	{"size of 64 bits", "8000000000000000\r\na", ErrChunkSize, "", "", ""},
	{"size that overflows", "10000000000000001\r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"size with all bits", "ffffffffffffffff\r\na", ErrChunkSize, "", "", ""},
	{"size with 0x", "0x1\r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"size with a minus", "-1\r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"size with a plus", "+1\r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"size with an underscore", "1_0\r\n", ErrChunkSize, "", "", ""},
	{"size with a letter", "1g\r\n", ErrChunkSize, "", "", ""},
	{"space before the size", " 1\r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"space behind the size", "1 \r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"tab behind the size", "1\t\r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"space before an extension", "1 ;a\r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"comma behind the size", "1,a\r\na\r\n0\r\n\r\n", ErrChunkSize, "", "", ""},
	{"bare LF behind the size", "1\na\r\n0\r\n\r\n", ErrBareLF, "", "", ""},
	{"bare LF alone", "\n", ErrBareLF, "", "", ""},
	{"bare CR behind the size", "1\ra\r\n0\r\n\r\n", ErrBareCR, "", "", ""},
	{"CR CR LF", "1\r\r\na\r\n0\r\n\r\n", ErrBareCR, "", "", ""},
	{"bare LF in an extension", "1;a\nb\r\na\r\n0\r\n\r\n", ErrBareLF, "", "", ""},
	{"bare CR in an extension", "1;a\rb\r\na\r\n0\r\n\r\n", ErrBareCR, "", "", ""},
	{"NUL in an extension", "1;a\x00\r\na\r\n0\r\n\r\n", ErrChunkExtension, "", "", ""},
	{"payload too long", "1\r\nabc\r\n0\r\n\r\n", ErrChunkEnd, "", "", ""},
	{"payload too short", "5\r\nabc\r\n0\r\n\r\n", ErrChunkEnd, "", "", ""},
	{"no line end behind the payload", "1\r\na0\r\n\r\n", ErrChunkEnd, "", "", ""},
	{"bare LF behind the payload", "1\r\na\n0\r\n\r\n", ErrChunkEnd, "", "", ""},
	{"bare CR behind the payload", "1\r\na\r0\r\n\r\n", ErrChunkEnd, "", "", ""},
	{"bare LF at the end", "0\r\n\n", ErrBareLF, "", "", ""},
	{"bare CR at the end", "0\r\n\rX", ErrBareCR, "", "", ""},
	{"bare LF in a trailer", "0\r\nA: 1\nB: 2\r\n\r\n", ErrBareLF, "", "", ""},
	{"bare LF behind a byte", "0\r\nA\n\r\n\r\n", ErrBareLF, "", "", ""},
	{"bare LF behind a trailer", "0\r\nA: 1\r\n\n", ErrBareLF, "", "", ""},
	{"bare CR in a trailer", "0\r\nA: 1\rB: 2\r\n\r\n", ErrBareCR, "", "", ""},
	{"folded trailer", "0\r\nA: 1\r\n B: 2\r\n\r\n", ErrFold, "", "", ""},
	{"first trailer folded", "0\r\n A: 1\r\n\r\n", ErrFold, "", "", ""},
	{"space before a trailer's colon", "0\r\nA : 1\r\n\r\n", ErrNameSpace, "", "", ""},
	{"trailer without a colon", "0\r\nGET / HTTP/1.1\r\n\r\n", ErrNameSpace, "", "", ""},
	{"trailer of one word", "0\r\nabc\r\n\r\n", ErrNoColon, "", "", ""},
	{"trailer without a name", "0\r\n: abc\r\n\r\n", ErrFieldName, "", "", ""},
	{"NUL in a trailer", "0\r\nA: \x00\r\n\r\n", ErrFieldValue, "", "", ""},

	{"forbidden trailers", "0\r\nContent-Length: 5\r\nA: 1\r\ntransfer-encoding: chunked\r\nHOST: y\r\nIf-Match: a\r\nX-Forwarded-For: 1.2.3.4\r\nRange: a\r\n\r\n", nil, "", "A: 1", ""},
	{"trailers of gRPC", "0\r\ngrpc-status: 0\r\ngrpc-message: \r\n\r\n", nil, "", "grpc-status: 0|grpc-message: ", ""},
}

func TestChunked(t *testing.T) {
	for _, c := range chunkedCases {
		var every []int
		for cut := range len(c.raw) {
			every = append(every, cut)
		}
		ways := [][]int{nil, every}
		for cut := range len(c.raw) {
			ways = append(ways, []int{cut})
		}
		for _, cuts := range ways {
			got := decode(t, c.raw, Limits{}, cuts...)
			if c.err != nil {
				if !errors.Is(got.err, c.err) {
					t.Errorf("%s, cut at %v: %s, want %v", c.name, cuts, got.text(), c.err)
				}
				continue
			}
			rest, unended := c.rest, c.rest == "…"
			if unended {
				rest = ""
			}
			if got.err != nil || got.done == unended || got.payload != c.payload || lines(got.trailer) != c.trailer || c.raw[got.n:] != rest {
				t.Errorf("%s, cut at %v: %s", c.name, cuts, got.text())
			}
		}
	}
}

// A body that ended takes nothing more.
func TestChunkedStopsAtItsEnd(t *testing.T) {
	c := NewChunked(Limits{}, 0)
	if n, _, err := c.Next([]byte("0\r\n\r\n0\r\n\r\n")); n != 5 || err != nil || !c.Done() {
		t.Fatalf("took %d, %v", n, err)
	}
	if n, payload, err := c.Next([]byte("0\r\n\r\n")); n != 0 || payload != nil || err != nil {
		t.Errorf("then took %d, %q, %v", n, payload, err)
	}
}

func TestChunkedLimits(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		limits    Limits
		used      int
		err       *Error
	}{
		{"extensions fit", "1;abc\r\na\r\n1;de\r\na\r\n0\r\n\r\n", Limits{HeaderBytes: 5}, 0, nil},
		{"extensions one too long", "1;abc\r\na\r\n1;def\r\na\r\n0\r\n\r\n", Limits{HeaderBytes: 5}, 0, ErrHeaderTooLarge},
		{"a head took of it", "1;abc\r\na\r\n0\r\n\r\n", Limits{HeaderBytes: 5}, 3, ErrHeaderTooLarge},
		{"nothing is left, nothing is needed", "1\r\na\r\n0\r\n\r\n", Limits{HeaderBytes: 5}, 7, nil},
		{"endless extension", "1;" + strings.Repeat("a", 2<<20), Limits{}, 0, ErrHeaderTooLarge},
		{"trailers fit", "0\r\nA: 1\r\n\r\n", Limits{HeaderBytes: 6}, 0, nil},
		{"trailers one too long", "0\r\nA: 12\r\n\r\n", Limits{HeaderBytes: 6}, 0, ErrHeaderTooLarge},
		{"extensions and trailers", "0;a\r\nA: 1\r\n\r\n", Limits{HeaderBytes: 6}, 0, ErrHeaderTooLarge},
		{"endless trailer", "0\r\nA: " + strings.Repeat("a", 2<<20), Limits{}, 0, ErrHeaderTooLarge},
		{"two trailers", "0\r\nA: 1\r\nB: 1\r\n\r\n", Limits{Headers: 2}, 0, nil},
		{"three trailers", "0\r\nA: 1\r\nB: 1\r\nC: 1\r\n\r\n", Limits{Headers: 2}, 0, ErrTooManyFields},
		{"bare LF before the limit", "1;ab\nc\r\n", Limits{HeaderBytes: 2}, 0, ErrBareLF},
	} {
		decoder := NewChunked(c.limits, c.used)
		var err error
		for rest := []byte(c.raw); err == nil && len(rest) > 0; {
			var n int
			n, _, err = decoder.Next(rest)
			rest = rest[n:]
		}
		if c.err == nil && (err != nil || !decoder.Done()) || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
	}
}

func TestChunkedAllocatesNothing(t *testing.T) {
	data := []byte("5;a=b\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() {
		c := NewChunked(Limits{}, 0)
		for rest := data; !c.Done(); {
			n, _, err := c.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestForbiddenTrailer(t *testing.T) {
	for name, want := range map[string]bool{
		"Content-Length": true, "content-length": true, "Transfer-Encoding": true, "Host": true, "Trailer": true, "TE": true, "Connection": true, "Upgrade": true,
		"Authorization": true, "Cookie": true, "Set-Cookie": true, "Content-Type": true, "Content-Range": true, "Range": true, "Pragma": true, "Max-Forwards": true,
		"If-None-Match": true, "if-range": true, "Age": true, "EXPIRES": true, "X-Forwarded-Proto": true, "X-Real-IP": true, "X-Request-ID": true, "Forwarded": true, "Via": true,
		"grpc-status": false, "X-Checksum": false, "Digest": false, "ETag": false, "If": false, "If-": false, "Iffy": false, "Server-Timing": false, "Traceparent": false,
	} {
		if got := ForbiddenTrailer(message.Field{Name: name, ID: message.Lookup(name)}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
