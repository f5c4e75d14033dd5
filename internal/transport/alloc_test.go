package transport

import (
	"io"
	"testing"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// small does one attempt as an engine does, with memory of its own.
type small struct {
	try    pipeline.Attempt
	watch  pipeline.Watch
	fields [16]message.Field
	body   [512]byte
}

func (s *small) ask(transport pipeline.Transport, ctx *netloop.Context, request *message.Request) error {
	s.try = pipeline.Attempt{Request: request, Watch: &s.watch}
	s.try.Response.Fields = s.fields[:0]
	if err := transport.RoundTrip(ctx, &s.try); err != nil {
		return err
	}
	for {
		if _, err := s.try.Response.Body.Read(s.body[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// trivial is an endpoint that allocates nothing: it takes what comes at once for
// a request.
func trivial(p *peer) {
	buffer, answer := make([]byte, 4096), []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
	for {
		if _, err := p.Conn.Read(buffer); err != nil {
			return
		}
		if _, err := p.Conn.Write(answer); err != nil {
			return
		}
	}
}

// In the budget of an exchange the transport has nothing but the text of the
// response's head.
func TestOneAllocation(t *testing.T) {
	engines(t, func(t *bed) {
		if t.own == nil {
			t.Skip("contexts that are not the engine's cost some")
		}
		endpoint := scripted(t, trivial)
		p := open(t, endpoint, setup{}).pool
		do(t.own, func() {
			var ctx netloop.Context
			ctx.Init(t.own)
			request, s := get("/"), new(small)
			request.Fields.Add("Accept", "*/*")
			n := testing.AllocsPerRun(200, func() {
				if err := s.ask(p, &ctx, request); err != nil {
					t.Error(err)
				}
			})
			if n != 1 {
				t.Errorf("%v allocations in each exchange", n)
			}
		})
	})
}
