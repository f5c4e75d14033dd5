package server_test

import (
	"errors"
	"io"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// h3Frame is a frame of HTTP/3 (RFC 9114 7.1).
func h3Frame(kind byte, content []byte) []byte {
	return append(quicvarint.Append([]byte{kind}, uint64(len(content))), content...)
}

const h3Data, h3Headers = 0, 1

// h3Fields is a header of names and values, in HEADERS, all of them literal (RFC
// 9204 4.5.6).
func h3Fields(fields ...string) []byte {
	length := func(b []byte, first byte, bits, n int) []byte {
		most := 1<<bits - 1
		if n < most {
			return append(b, first|byte(n))
		}
		b = append(b, first|byte(most))
		for n -= most; n >= 128; n >>= 7 {
			b = append(b, byte(n)|128)
		}
		return append(b, byte(n))
	}
	block := []byte{0, 0}
	for i := 0; i < len(fields); i += 2 {
		block = append(length(block, 0x20, 3, len(fields[i])), fields[i]...)
		block = append(length(block, 0, 7, len(fields[i+1])), fields[i+1]...)
	}
	return h3Frame(h3Headers, block)
}

// TestMalformedOverHTTP3 ends each malformed request as an exchange, once, though the
// library refuses it.
func TestMalformedOverHTTP3(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, func(x *pipeline.Exchange) error {
		if x.Request.Body == nil {
			return text("ok")(x)
		}
		_, err := io.ReadAll(x.Request.Body)
		x.Response = reply(200, "")
		return err
	}, a.over, func(m *model.Listener) { m.Protocols = []string{model.H1, model.H3} })
	conn, err := quic.DialAddr(t.Context(), f.listener.Addr().String(), a.client("h3"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseWithError(0x100, "") }()
	send := func(parts ...[]byte) *quic.Stream {
		t.Helper()
		stream, err := conn.OpenStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			_, _ = stream.Write(part) // it may be refused already
		}
		_ = stream.Close() // as above
		return stream
	}
	refused := func(what string, word pipeline.Word, method, path string) {
		t.Helper()
		x := f.next(t)
		if x.Err == nil || x.Err.Word != word || x.ID == "" {
			t.Errorf("%s: %v", what, x.Err)
		}
		if q := x.Request; q.Method != method || q.Path != path || q.Protocol != message.HTTP3 || !x.Peer.IsValid() {
			t.Errorf("%s: %+v from %v", what, q, x.Peer)
		}
	}
	for name, fields := range map[string][]string{
		"an upper-case name": posted("X-Up", "1"),
		"no authority":       {":method", "POST", ":scheme", "https", ":path", "/x"},
		"of the connection":  posted("connection", "close"),
	} {
		stream := send(h3Fields(fields...))
		var reset *quic.StreamError
		if _, err := io.ReadAll(stream); !errors.As(err, &reset) || reset.ErrorCode != quic.StreamErrorCode(http3.ErrCodeMessageError) {
			t.Errorf("%s: %v", name, err)
		}
		refused(name, pipeline.BadRequest, "POST", "/x")
	}
	send(h3Frame(h3Headers, make([]byte, 100))[:50])
	refused("half a header", pipeline.BadRequest, "", "")
	send(quicvarint.Append([]byte{h3Headers}, 2<<20))
	refused("a large header", pipeline.HeaderTooLarge, "", "")
	for name, content := range map[string][]byte{"too short": h3Frame(h3Data, []byte("short")), "too long": h3Frame(h3Data, []byte("longer than that")), "cut": h3Frame(h3Data, make([]byte, 10))[:5]} {
		send(h3Fields(posted("content-length", "10")...), content)
		refused(name, pipeline.BadRequest, "POST", "/x")
	}
	send(h3Fields(posted("content-length", "5")...), h3Frame(h3Data, []byte("right")), h3Fields("x-sum", "1"))
	if x := f.next(t); x.Err != nil || x.BytesIn != 5 {
		t.Errorf("a whole one with trailers: %v", x.Err)
	}
	if _, err := io.ReadAll(send(h3Fields(":method", "GET", ":scheme", "https", ":path", "/"))); err == nil {
		t.Error("it is answered")
	}
	_ = conn.CloseWithError(0x100, "") // which is the time to tell of it
	refused("the last one", pipeline.BadRequest, "GET", "/")
	if len(f.ended) > 0 {
		t.Errorf("more than that: %+v", <-f.ended)
	}
}
