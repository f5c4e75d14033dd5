//go:build unix

package netloop

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// buffered has a peer say three records at once, of which our side reads two
// bytes: the rest of the first is deciphered, the others are not.
func buffered(t testing.TB, x Executor, own *TLS, joined *joining, other *tls.Conn) {
	t.Helper()
	joined.hold = true
	for _, text := range []string{"one ", "two ", "three"} {
		_, _ = io.WriteString(other, text)
	}
	joined.flush()
	joined.hold = false
	settle(t, x, "it comes", own.Inner().Stale)
	if n, err := own.Read(make([]byte, 2)); n != 2 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if !own.Pending() { // and a byte is stashed
		t.Error("nothing is there")
	}
}

const unread = "e two three"

// joinedServed is tlsServed with a client that can hold what it writes.
func joinedServed(t testing.TB, x Executor, server, client *tls.Config) (*TLS, *joining, *tls.Conn) {
	t.Helper()
	c, peer := pair(t, x, "tcp")
	joined := &joining{Conn: peer}
	own, other := ServeTLS(c, nil, server), tls.Client(joined, client)
	shake(t, own, other)
	return own, joined, other
}

// TestTLSDetach goes on with a session on goroutines, with all that was read.
func TestTLSDetach(t *testing.T) {
	server, client := configs(t)
	eachVersion(t, func(b *bed, x Executor, version uint16) {
		t := b.t
		own, joined, other := joinedServed(t, x, of(server, version), client)
		_, _ = own.Write([]byte("before "))
		buffered(t, x, own, joined, other)
		raw, err := own.Detach()
		if err != nil {
			t.Errorf("detach: %v", err)
			return
		}
		defer func() { _ = raw.Close() }()
		detached, ok := raw.(*DetachedTLS)
		if !ok {
			t.Errorf("it is a %T", raw)
			return
		}
		if state := detached.ConnectionState(); state.Version != version || !state.HandshakeComplete {
			t.Errorf("the state: %+v", state)
		}
		if detached.RemoteAddr().String() != joined.LocalAddr().String() || detached.LocalAddr().String() != joined.RemoteAddr().String() {
			t.Error("it has other addresses")
		}
		x.Block(func() {
			got := make([]byte, len(unread))
			if _, err := io.ReadFull(raw, got); err != nil || string(got) != unread {
				t.Errorf("read %q, %v", got, err)
			}
			const size = 1 << 20
			go func() {
				_, _ = io.Copy(other, noise(8, size))
				_ = other.CloseWrite()
			}()
			go func() {
				_, _ = io.Copy(struct{ io.Writer }{raw}, noise(9, size))
				_ = detached.CloseWrite()
			}()
			before := make([]byte, len("before "))
			if _, err := io.ReadFull(other, before); err != nil || string(before) != "before " {
				t.Errorf("the peer read %q, %v", before, err)
			}
			done := make(chan struct{})
			go func() { defer close(done); sameNoise(t, raw, 8, size) }()
			sameNoise(t, other, 9, size)
			if n, err := other.NetConn().Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // the very value
				t.Errorf("the socket is not shut: %d, %v", n, err)
			}
			<-done
		})
	})
}

// TestTLSDetachUnsent takes along what a deadline has cut off, also while a task
// of the connection's own waits to write it.
func TestTLSDetachUnsent(t *testing.T) {
	server, client := configs(t)
	each(t, func(b *bed) {
		t := b.t
		for _, waits := range []bool{false, true} {
			b.task(t, func(x Executor) {
				own, p := newRawPeer(t, x, server, client)
				own.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				written, source := int64(0), noise(4, 1<<30)
				chunk := make([]byte, 100<<10)
				for {
					_, _ = io.ReadFull(source, chunk)
					n, err := own.Write(chunk)
					if written += int64(n); err != nil {
						break
					}
				}
				own.SetWriteDeadline(time.Time{})
				if waits {
					_, _ = p.conn.Write(append(p.update(updateRequested), p.data("x")...))
					if n, err := own.Read(make([]byte, 8)); n != 1 || err != nil {
						t.Errorf("read %d, %v", n, err)
					}
					_ = x.NewEvent().Wait(time.Now().Add(5 * time.Millisecond)) // the task waits, or not yet: it is the same
				}
				raw, err := own.Detach()
				if err != nil {
					t.Errorf("detach: %v", err)
					return
				}
				x.Block(func() {
					go func() { _, _ = io.WriteString(raw, "after") }()
					data, _, err := p.readData(written + int64(len("after")))
					if err != nil || string(data[written:]) != "after" {
						t.Errorf("the peer read %d bytes of %d, %v", len(data), written, err)
					}
					sameNoise(t, &reader{data[:written]}, 4, written)
					_ = raw.Close()
				})
			})
		}
	})
}

// reader reads bytes.
type reader struct{ data []byte }

func (r *reader) Read(p []byte) (int, error) {
	n := copy(p, r.data)
	if r.data = r.data[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestTLSDetachedEnd has the end of a detached connection, either way.
func TestTLSDetachedEnd(t *testing.T) {
	server, client := configs(t)
	each(t, func(b *bed) {
		t := b.t
		detach := func(x Executor) (*DetachedTLS, *tls.Conn) {
			own, other := tlsServed(t, x, server, client)
			raw, err := own.Detach()
			if err != nil {
				t.Errorf("detach: %v", err)
				panic(err)
			}
			return raw.(*DetachedTLS), other
		}
		b.task(t, func(x Executor) {
			own, other := detach(x)
			x.Block(func() {
				_ = own.SetReadDeadline(time.Unix(1, 0))
				var passed net.Error
				if _, err := own.Read(make([]byte, 1)); !errors.As(err, &passed) || !passed.Timeout() {
					t.Errorf("a deadline: %v", err)
				}
				_ = own.SetDeadline(time.Time{})
				_ = own.SetWriteDeadline(time.Now().Add(time.Hour))
				_ = other.NetConn().Close()
				for range 2 {
					if _, err := own.Read(make([]byte, 1)); err != io.ErrUnexpectedEOF { //nolint:errorlint // the very value
						t.Errorf("cut: %v", err)
					}
				}
				_ = own.Close()
			})
			own, other = detach(x)
			x.Block(func() {
				_ = own.Close()
				if n, err := other.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // the very value
					t.Errorf("closed: %d, %v", n, err)
				}
			})
			own, other = detach(x)
			x.Block(func() {
				if err := own.SetLinger(0); err != nil {
					t.Errorf("linger: %v", err)
				}
				_ = own.Close()
				if n, err := other.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("reset: %d, %v", n, err)
				}
			})

			// The end was read before.
			served, peer := tlsServed(t, x, server, client)
			_ = peer.Close()
			settle(t, x, "the end comes", served.Stale)
			raw, err := served.Detach()
			if err != nil {
				t.Errorf("detach: %v", err)
				return
			}
			x.Block(func() {
				if n, err := raw.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // the very value
					t.Errorf("after the end: %d, %v", n, err)
				}
				_ = raw.Close()
			})
		})
	})
}

// TestTLSAdopt moves connections from executor to executor, with all that was
// read.
func TestTLSAdopt(t *testing.T) {
	server, client := configs(t)
	each(t, func(b *bed) {
		t := b.t
		all := b.Executors()
		var own, old *TLS
		var joined *joining
		var other *tls.Conn
		b.task(t, func(x Executor) {
			own, joined, other = joinedServed(t, x, server, client)
			buffered(t, x, own, joined, other)
		})
		on := func(i int, f func(x Executor)) {
			done := make(chan struct{})
			all[i%len(all)].Post(func() { defer close(done); f(all[i%len(all)]) })
			<-done
		}
		for i := range 4 {
			var raw net.Conn
			on(i, func(Executor) {
				var err error
				if raw, err = own.Detach(); err != nil {
					t.Errorf("detach: %v", err)
				}
				old = own
			})
			on(i+1, func(x Executor) {
				conn, err := x.Adopt(raw)
				if err != nil {
					t.Errorf("adopt: %v", err)
					panic(err)
				}
				own = conn.(*TLS)
				old.Interrupt(errors.New("of who still has it"))
				_ = old.Close()
				if own.Executor() != x || !own.ConnectionState().HandshakeComplete || !own.Pending() {
					t.Error("it is another")
				}
				if n, err := own.Read(make([]byte, 1)); n != 1 || err != nil {
					t.Errorf("read: %v", err)
				}
			})
		}
		on(4, func(x Executor) {
			got := make([]byte, len(unread)-4)
			if _, err := io.ReadFull(own, got); err != nil || string(got) != unread[4:] {
				t.Errorf("read %q, %v", got, err)
			}
			if own.Pending() || own.Stale() {
				t.Error("nothing is there, and it seems so")
			}
			atRest(t, own)
			_, _ = own.Write([]byte("answer"))
			x.Block(func() {
				_, _ = io.WriteString(other, "more")
				answer := make([]byte, 6)
				if _, err := io.ReadFull(other, answer); err != nil || string(answer) != "answer" {
					t.Errorf("the peer read %q, %v", answer, err)
				}
			})
			if _, err := io.ReadFull(own, got[:4]); err != nil || string(got[:4]) != "more" {
				t.Errorf("then it read %q, %v", got[:4], err)
			}

			// Goroutines have read from it.
			raw, err := own.Detach()
			if err != nil {
				t.Errorf("detach: %v", err)
				return
			}
			x.Block(func() {
				_, _ = io.WriteString(other, "x")
				_, _ = raw.Read(got)
			})
			if _, err := x.Adopt(raw); !errors.Is(err, errReadDetached) {
				t.Errorf("adopt: %v", err)
			}
			if _, err := raw.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("it is still open: %v", err)
			}
		})
	})
}
