package transport

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// judged is a connection that calls f when it is asked what was acknowledged:
// when an attempt judges whether it may be made again.
type judged struct {
	netloop.Conn
	f func()
}

func (j judged) Control(f func(uintptr)) error {
	j.f()
	return j.Conn.Control(f)
}

// whenJudged has f called before the request of the next attempt is sent again.
// f gets a function that lets tasks run for a moment.
func whenJudged(t *bed, transport opened, f func(pass func())) {
	t.Helper()
	u := rest(t, transport)
	executor := u.Executor()
	u.Conn = judged{u.Conn, func() {
		f(func() { _ = executor.NewEvent().Wait(time.Now().Add(time.Millisecond)) })
	}}
}

// dying is an endpoint whose first connection answers one request, takes size
// bytes of the body of the next, and dies. All others take all of a body. It
// tells what they got, and whether that was all.
func dying(t *bed, size, all int) (transport opened, bodies <-chan []byte) {
	t.Helper()
	var connections atomic.Int64
	got := make(chan []byte, 1)
	endpoint := scripted(t, func(p *peer) {
		first := connections.Add(1) == 1
		for head := p.head(); head != ""; head = p.head() {
			switch {
			case !strings.HasPrefix(head, "PUT"):
			case first:
				_, _ = io.ReadFull(p, make([]byte, size))
				return
			default:
				body := make([]byte, all)
				n, _ := io.ReadFull(p, body)
				got <- body[:n]
			}
			p.say(ok)
		}
	})
	transport = open(t, endpoint, setup{})
	ask(t, transport, get("/"))
	return transport, got
}

// A body that outgrows what is kept, while it is judged whether it can be sent
// again, is sent to its end, or not at all.
func TestBodyThatGrowsWhileItIsJudged(t *testing.T) {
	onLinux(t)
	engines(t, func(t *bed) {
		body := pattern(maxReplay + pieceSize)
		const first = maxReplay - 100
		transport, bodies := dying(t, first, len(body))
		read, client := io.Pipe()
		defer read.Close()
		more, taken := make(chan struct{}), make(chan struct{})
		go func() {
			_, _ = client.Write(body[:first])
			<-more
			_, _ = client.Write(body[first : first+pieceSize])
			close(taken)
			_, _ = client.Write(body[first+pieceSize:])
		}()
		whenJudged(t, transport, func(pass func()) {
			close(more)
			for !isClosed(taken) {
				pass()
			}
			for range 50 { // for what it then does with it
				pass()
			}
		})
		request := post(read, int64(len(body)))
		request.Method = "PUT"
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		response, err := trip(ctx, transport, request, nil)
		if err != nil {
			t.Fatal(err)
		}
		drain(t, response)
		if got := waittest.Receive(t, "a body", bodies); !bytes.Equal(got, body) {
			t.Errorf("%d bytes went out as %d others", len(body), len(got))
		}
	})
}

// A client that fails while another connection is made ends its attempt.
func TestClientThatFailsBeforeAReplay(t *testing.T) {
	onLinux(t)
	engines(t, func(t *bed) {
		for _, fault := range []error{pipeline.NewError(pipeline.BodyTooLarge, nil), pipeline.ErrClientGone} {
			transport, bodies := dying(t, 3, 6)
			read, client := io.Pipe()
			body := &closeNoted{Reader: read}
			go func() { _, _ = client.Write([]byte("one")) }()
			whenJudged(t, transport, func(pass func()) {
				client.CloseWithError(fault)
				for !body.closed.Load() {
					pass()
				}
			})
			request := post(nil, 6)
			request.Method, request.Body = "PUT", body
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := fails(ctx, t, transport, request)
			if ctx.Err() != nil {
				t.Error("it waited for the endpoint")
			}
			cancel()
			wantError(t, err, pipeline.AsError(fault).Word)
			select {
			case got := <-bodies:
				if len(got) == 6 {
					t.Errorf("the endpoint got %q", got)
				}
			default:
			}
		}
	})
}

// pattern is n bytes of which no part is like another.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8*13 + i>>16*29)
	}
	return p
}
