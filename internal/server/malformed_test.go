package server_test

import (
	"io"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// overHTTP2 has a listener speak HTTP/2 in clear.
func overHTTP2(m *model.Listener) { m.Protocols = []string{model.H1, model.H2} }

// posted is the pseudo-header fields of a POST, with more.
func posted(more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":authority", "a.example", ":path", "/x"}, more...)
}

// resetOf waits for the reset of a stream.
func (r *raw) resetOf(stream uint32) http2.ErrCode {
	r.Helper()
	for {
		frame, err := r.ReadFrame()
		if err != nil {
			r.Fatal(err)
		}
		if reset, ok := frame.(*http2.RSTStreamFrame); ok && reset.StreamID == stream {
			return reset.ErrCode
		}
	}
}

// TestMalformedOverHTTP2 ends each malformed request as an exchange, once, though
// its client sees a reset only.
func TestMalformedOverHTTP2(t *testing.T) {
	ofEngine(t, "the adapter has no HTTP/2")
	f := start(t, text("never"), overHTTP2)
	r := f.raw()
	for i, fields := range [][]string{
		posted("X-Up", "1"),
		{":method", "POST", ":authority", "a.example", ":path", "/x"},
		posted("connection", "close"),
		posted("content-length", "5"),
	} {
		stream := uint32(2*i + 1)
		r.ask(stream, true, fields...)
		if code := r.resetOf(stream); code != http2.ErrCodeProtocol {
			t.Errorf("%q: %v", fields, code)
		}
		x := f.next(t)
		if x.Err == nil || x.Err.Word != pipeline.BadRequest || x.Response.Status != 400 || x.ID == "" {
			t.Errorf("%q: %v, %+v", fields, x.Err, x.Response)
		}
		if q := x.Request; q.Method != "POST" || q.Host != "a.example" || q.Path != "/x" || q.Protocol != message.HTTP2 || !x.Peer.IsValid() || !x.Local().IsValid() {
			t.Errorf("%q: %+v from %v", fields, q, x.Peer)
		}
	}
	if len(f.served) > 0 {
		t.Errorf("%d were served", len(f.served))
	}
}

// TestUnfinishedOverHTTP2 ends a request whose header does not come whole.
func TestUnfinishedOverHTTP2(t *testing.T) {
	ofEngine(t, "the adapter has no HTTP/2")
	f := start(t, text("never"), overHTTP2, func(m *model.Listener) { m.Timeouts.ReadHeader = 500 * time.Millisecond })
	r := f.raw()
	if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83}}); err != nil {
		t.Fatal(err)
	}
	if x := f.next(t); x.Err.Word != pipeline.RequestTimeout || x.Request.Method != "POST" {
		t.Errorf("%v of %+v", x.Err, x.Request)
	}
}

// TestMalformedContentOverHTTP2 blames a client for content that is not as long as
// announced, or ends in trailers that are none: it has not left.
func TestMalformedContentOverHTTP2(t *testing.T) {
	ofEngine(t, "the adapter has no HTTP/2")
	reads := func(x *pipeline.Exchange) error {
		_, err := io.ReadAll(x.Request.Body)
		x.Response = reply(200, "")
		return err
	}
	for name, serve := range map[string]func(x *pipeline.Exchange) error{
		"that is read": reads,
		"that nobody reads": func(x *pipeline.Exchange) error {
			<-x.Context().Done()
			return contextCause(x)
		},
		"that is answered before": func(x *pipeline.Exchange) error {
			<-x.Context().Done()
			return text("too late")(x)
		},
	} {
		f := start(t, serve, overHTTP2)
		r := f.raw()
		for i, end := range []func(stream uint32) error{
			func(stream uint32) error { return r.WriteData(stream, true, []byte("short")) },
			func(stream uint32) error { return r.WriteData(stream, false, []byte("longer than that")) },
			func(stream uint32) error {
				return r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x83}, EndHeaders: true, EndStream: true})
			},
		} {
			stream := uint32(2*i + 1)
			r.ask(stream, false, posted("content-length", "10")...)
			if err := end(stream); err != nil {
				t.Fatal(err)
			}
			if code := r.resetOf(stream); code != http2.ErrCodeProtocol {
				t.Errorf("%s: %v", name, code)
			}
			if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.BadRequest {
				t.Errorf("%s, end %d: %v", name, i, x.Err)
			}
		}
		r.ask(9, false, posted("content-length", "10")...)
		if err := r.WriteRSTStream(9, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed {
			t.Errorf("%s, and the client leaves: %v", name, x.Err)
		}
	}
}
