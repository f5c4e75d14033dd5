package server_test

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// raw speaks HTTP/2 frame by frame, in clear.
type raw struct {
	*testing.T
	*http2.Framer
	fields *hpack.Decoder
}

func (f *fixture) raw() *raw {
	f.Helper()
	c := f.dial()
	c.send(http2.ClientPreface)
	r := &raw{T: f.T, Framer: http2.NewFramer(c.Conn, c.Conn), fields: hpack.NewDecoder(4096, nil)}
	r.ReadMetaHeaders = r.fields
	if err := r.WriteSettings(); err != nil {
		f.Fatal(err)
	}
	return r
}

// ask begins a stream.
func (r *raw) ask(stream uint32, end bool, fields ...string) {
	r.Helper()
	var block writer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			r.Fatal(err)
		}
	}
	if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true, EndStream: end}); err != nil {
		r.Fatal(err)
	}
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }

// head waits for the head of a stream's response and returns its status.
func (r *raw) head(stream uint32) (status string, fields *http2.MetaHeadersFrame) {
	r.Helper()
	for {
		frame, err := r.ReadFrame()
		if err != nil {
			r.Fatal(err)
		}
		if head, ok := frame.(*http2.MetaHeadersFrame); ok && head.StreamID == stream {
			status = head.PseudoValue("status")
			return status, head
		}
	}
}

// data reads so many bytes of a stream's body.
func (r *raw) data(stream uint32, length int) (text string) {
	r.Helper()
	for len(text) < length {
		frame, err := r.ReadFrame()
		if err != nil {
			r.Fatal(err)
		}
		if data, ok := frame.(*http2.DataFrame); ok && data.StreamID == stream {
			text += string(data.Data())
		}
	}
	return text
}

// TestWebSocketOverHTTP2 makes an extended CONNECT the upgrade that everybody
// behind the server knows, and joins the two streams (RFC 8441).
func TestWebSocketOverHTTP2(t *testing.T) {
	ofEngine(t, "the adapter has no HTTP/2")
	ours, theirs := net.Pipe()
	f := start(t, func(x *pipeline.Exchange) error {
		r := x.Request
		if r.Method != "GET" || r.Path != "/chat" || r.Fields.Get(message.Upgrade) != "websocket" || r.Body != nil {
			x.Response = reply(400, "")
			return nil
		}
		if key, _ := r.Fields.Find("Sec-WebSocket-Key"); len(key) != 24 {
			t.Errorf("the key is %q", key)
		}
		if _, found := r.Fields.Find(":protocol"); found {
			t.Error(":protocol goes on")
		}
		x.Response = &message.Response{Status: 101, Length: message.Unknown, Tunnel: tunnelEnd{theirs}}
		x.Response.Fields.Add("Upgrade", "websocket")
		x.Response.Fields.Add("Sec-WebSocket-Accept", "x")
		x.Response.Fields.Add("Sec-WebSocket-Protocol", "chat")
		return nil
	}, func(m *model.Listener) { m.Protocols = []string{model.H1, model.H2} })
	r := f.raw()
	r.ask(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/chat", ":authority", "a.test", "sec-websocket-version", "13")
	status, head := r.head(1)
	if status != "200" {
		t.Fatalf("status %s", status)
	}
	var protocol string
	for _, field := range head.RegularFields() {
		switch field.Name {
		case "sec-websocket-protocol":
			protocol = field.Value
		case "sec-websocket-accept", "upgrade", "connection":
			t.Errorf("it has %s", field.Name)
		}
	}
	if protocol != "chat" {
		t.Errorf("the protocol is %q", protocol)
	}
	go func() { _, _ = io.Copy(ours, ours) }()
	for _, text := range []string{"hello", "again"} {
		if err := r.WriteData(1, false, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := r.data(1, len(text)); got != text {
			t.Errorf("%q came back", got)
		}
	}
	_ = ours.Close()
	if x := f.next(t); x.BytesIn != 10 || x.BytesOut != 10 {
		t.Errorf("%d in, %d out, %v", x.BytesIn, x.BytesOut, x.Err)
	}
	// What else CONNECT may ask for is not there, nor is plain CONNECT for the
	// pipeline to take for a tunnel.
	r.ask(3, true, ":method", "CONNECT", ":protocol", "webtransport", ":scheme", "http", ":path", "/", ":authority", "a.test")
	if status, _ := r.head(3); status != "501" {
		t.Errorf("status %s of another protocol", status)
	}
}

// tunnelEnd is a pipe as a tunnel.
type tunnelEnd struct{ net.Conn }

func (t tunnelEnd) CloseWrite() error { return t.SetWriteDeadline(time.Unix(1, 0)) }
