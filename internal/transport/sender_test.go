package transport

import (
	"bytes"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// resumed is a sender whose connection was taken away after a piece, and the link
// that it goes on with.
func resumed(t *testing.T, conn netloop.Conn, last bool) (*sender, *link) {
	t.Helper()
	executor := startGoroutines(t)
	p := open(&bed{T: t, engine: NewEngine(nil, executor)}, nowhere, setup{}).pool
	before := linked(t, p, new(sink))
	s := newSender(before, message.Text(""))
	s.chunked, s.started = false, true
	s.finished, s.link = executor.NewEvent(), before
	if !s.write([]byte("one"), []byte("one"), last) {
		t.Fatal("the sending ended")
	}
	if !s.pause() {
		t.Fatal("it cannot be sent again")
	}
	return s, linked(t, p, conn)
}

// writing calls f for what is written.
type writing struct {
	netloop.Conn
	f func()
}

func (w writing) Write(p []byte) (int, error) { w.f(); return len(p), nil }

func TestClientThatFailsWhileABodyIsSentAgain(t *testing.T) {
	var s *sender
	s, l := resumed(t, writing{f: func() { s.fail(pipeline.NewError(pipeline.RequestTimeout, nil)) }}, false)
	wantError(t, s.resume(l), pipeline.RequestTimeout)
}

// What was written of a body on a connection that died is not written on the one
// that took its place.
func TestBodyThatCannotBeSentAgain(t *testing.T) {
	s, l := resumed(t, dead{}, true)
	s.over = true
	if err := s.resume(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if s.finish() {
		t.Error("it counts as sent")
	}
}

func TestBodyWhoseTrailerTurnsBad(t *testing.T) {
	s, l := resumed(t, new(sink), true)
	s.chunked, s.trailer = true, func() message.Fields { return message.Fields{{Name: "X", Value: "a\r\nb"}} }
	wantError(t, s.resume(l), pipeline.BadRequest)
}

func TestBodyOfWhichSomeIsGone(t *testing.T) {
	s, l := resumed(t, new(sink), false)
	s.lost = true
	defer func() {
		if recover() == nil {
			t.Error("it is sent again")
		}
	}()
	_ = s.resume(l)
}

// halting takes some of what is written, then a deadline passes; when that is
// taken away, it takes everything.
type halting struct {
	sink
	unbound bool
}

func (h *halting) Write(p []byte) (int, error) {
	if h.unbound {
		return h.sink.Write(p)
	}
	n, _ := h.sink.Write(p[:2])
	return n, os.ErrDeadlineExceeded
}

func (*halting) SetReadDeadline(time.Time) {}

func (h *halting) SetWriteDeadline(until time.Time) { h.unbound = until.IsZero() }

// A deadline that passes in the middle of a piece breaks nothing of it: the
// attempt's task keeps the time.
func TestDeadlineInTheMiddleOfAPiece(t *testing.T) {
	executor := startGoroutines(t)
	p := open(&bed{T: t, engine: NewEngine(nil, executor)}, nowhere, setup{}).pool
	conn := new(halting)
	l := linked(t, p, conn)
	s := newSender(l, message.Text(""))
	s.link = l
	if !s.write([]byte("a piece"), []byte("a piece"), true) || !s.whole || s.out != 7 {
		t.Errorf("whole: %v, %d bytes", s.whole, s.out)
	}
	if got := conn.got.String(); got != "a piece" {
		t.Errorf("it went out as %q", got)
	}
}
