package transport

import (
	"bytes"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// dead is a connection that has ended, and sink one that takes everything.
type (
	dead struct{ netloop.Conn }
	sink struct {
		netloop.Conn
		mu  sync.Mutex
		got bytes.Buffer
	}
)

func (dead) Write([]byte) (int, error) { return 0, net.ErrClosed }

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(p)
}

// linked is a link of an attempt over some connection.
func linked(t *testing.T, p *pool, conn netloop.Conn) *link {
	t.Helper()
	l := &link{pool: p, shelf: p.fallback, conn: conn, reused: true}
	l.ctx, l.try = t.Context(), &pipeline.Attempt{Request: post(nil, message.Unknown)}
	return l
}

// A piece that is on its way when its connection is replaced reaches the other
// one, once.
func TestNoPieceIsLostWithAConnection(t *testing.T) {
	executor := startGoroutines(t)
	p := open(&bed{T: t, engine: NewEngine(nil, executor)}, nowhere, setup{}).pool
	pieces := []string{"one ", "two ", "three ", "four"}
	want := strings.Join(pieces, "")
	for range 3000 {
		before, target := linked(t, p, dead{}), new(sink)
		after := linked(t, p, target)
		s := newSender(before, message.Text(""))
		s.chunked = false
		s.finished, s.link = executor.NewEvent(), before
		var sending sync.WaitGroup
		var began atomic.Bool
		sending.Go(func() {
			began.Store(true)
			for i, piece := range pieces {
				if !s.write([]byte(piece), []byte(piece), i == len(pieces)-1) {
					t.Error("the sending ended")
				}
			}
		})
		for !began.Load() {
			runtime.Gosched()
		}
		s.pause()
		if err := s.resume(after); err != nil {
			t.Fatal(err)
		}
		sending.Wait()
		if got := target.got.String(); got != want {
			t.Fatalf("%q was sent as %q", want, got)
		}
	}
}
