package server_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// lateEnd is the body of a response whose end comes after its content, as that of
// an endpoint does that sends trailers, or an empty frame at last.
type lateEnd struct {
	content io.Reader
	end     func() error
}

func (l lateEnd) Read(p []byte) (int, error) {
	n, err := l.content.Read(p)
	if n > 0 {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = l.end()
	}
	return 0, err
}

func (lateEnd) Close() error { return nil }

// TestClientLeavesWithTheWholeResponse has a response end for the client with the
// last byte of its length, while the endpoint's end is still waited for. Nothing
// is lost on a client that leaves then; one that leaves before has lost something.
func TestClientLeavesWithTheWholeResponse(t *testing.T) {
	ofEngine(t, "the adapter has no HTTP/2")
	broken := pipeline.NewError(pipeline.UpstreamReset, nil)
	for _, test := range []struct {
		name   string
		length int64
		leaves bool
		end    error // of the body, where the client stays
		want   pipeline.Word
	}{
		{"and closes the connection", 5, true, nil, ""},
		{"and its request breaks off", 5, false, pipeline.NewError(pipeline.ClientClosed, pipeline.ErrClientGone), ""},
		{"before the last byte", 6, true, nil, pipeline.ClientClosed},
		{"while the end is good", 5, false, io.EOF, ""},
		{"while the end is a fault of the endpoint", 5, false, broken, pipeline.UpstreamReset},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, func(x *pipeline.Exchange) error {
				x.Response = &message.Response{Status: 200, Length: test.length, Body: lateEnd{strings.NewReader("hello"), func() error {
					if !test.leaves {
						return test.end
					}
					return canceled(x)
				}}}
				return nil
			}, overHTTP2)
			c := f.dial()
			c.send(http2.ClientPreface)
			r := &raw{T: t, Framer: http2.NewFramer(c.Conn, c.Conn), fields: hpack.NewDecoder(4096, nil)}
			if err := r.WriteSettings(); err != nil {
				t.Fatal(err)
			}
			r.ask(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a.test")
			ended := false
			for got := 0; got < 5; {
				frame, err := r.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				if data, ok := frame.(*http2.DataFrame); ok {
					got += len(data.Data())
					ended = data.StreamEnded()
				}
			}
			if ended != (test.length == 5) {
				t.Fatalf("the content ends the stream: %v", ended)
			}
			if test.leaves {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			x := f.next(t)
			got := pipeline.Word("")
			if x.Err != nil {
				got = x.Err.Word
			}
			if got != test.want || x.BytesOut != 5 || x.Response.Status != 200 {
				t.Errorf("%d with %d bytes: %v", x.Response.Status, x.BytesOut, x.Err)
			}
		})
	}
}
