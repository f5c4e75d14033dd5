//go:build unix

package netloop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// echoTLS answers what comes, and rests as a server does.
func echoTLS(t testing.TB, config *tls.Config, step int) Handler {
	t.Helper()
	return func(c Conn) (bool, time.Time) {
		own, ok := c.Data().(*TLS)
		if !ok {
			own = ServeTLS(c, nil, config)
			if err := own.Handshake(time.Now().Add(time.Minute)); err != nil {
				t.Errorf("handshake: %v", err)
				return false, time.Time{}
			}
			c.SetData(own)
		}
		buffer := make([]byte, step)
		for {
			n, err := own.Read(buffer)
			if err == nil {
				_, err = own.Write(buffer[:n])
			}
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, ErrStopped) { // the test may be over first
					t.Errorf("echo: %v", err)
				}
				_ = own.Close()
				return false, time.Time{}
			}
			if !own.Pending() {
				atRest(t, own)
				return true, time.Time{}
			}
		}
	}
}

func TestTLSEcho(t *testing.T) {
	server, client := configs(t)
	versions(t, func(t *testing.T, version uint16) {
		t.Helper()
		each(t, func(b *bed) {
			t := b.t
			dial := b.serve(t, "tcp", echoTLS(t, of(server, version), 4096), ListenOptions{})
			var clients sync.WaitGroup
			for g := range 20 {
				clients.Go(func() {
					conn := tls.Client(dial(), client)
					for i := range 30 {
						if !exchange(t, conn, fmt.Sprintf("%d of %d", i, g)) {
							return
						}
					}
					_ = conn.Close()
				})
			}
			clients.Wait()
		})
	})
}

// TestTLSPipelined has many small records come at once, of which each read takes
// a part: the loop does not wake for what was read from the socket before.
func TestTLSPipelined(t *testing.T) {
	server, client := configs(t)
	each(t, func(b *bed) {
		t := b.t
		for _, step := range []int{1, 7, 10, 1000} {
			dial := b.serve(t, "tcp", echoTLS(t, server, step), ListenOptions{})
			raw := dial()
			joined := &joining{Conn: raw}
			conn := tls.Client(joined, client)
			if err := conn.Handshake(); err != nil {
				t.Fatal(err)
			}
			joined.hold = true
			want := strings.Repeat("ten bytes.", 400)
			for i := 0; i < len(want); i += 10 {
				_, _ = io.WriteString(conn, want[i:i+10])
			}
			joined.flush()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
				t.Errorf("by %d: %v", step, err)
			}
			joined.hold = false
			_ = conn.Close()
		}
	})
}

// joining writes at once what was written while it held.
type joining struct {
	net.Conn
	hold bool
	held []byte
}

func (j *joining) Write(p []byte) (int, error) {
	if j.hold {
		j.held = append(j.held, p...)
		return len(p), nil
	}
	return j.Conn.Write(p)
}

func (j *joining) flush() {
	_, _ = j.Conn.Write(j.held)
	j.held = nil
}

// TestTLSLarge moves streams both ways at once.
func TestTLSLarge(t *testing.T) {
	const size = 4 << 20
	server, client := configs(t)
	eachVersion(t, func(b *bed, x Executor, version uint16) {
		t := b.t
		for _, made := range []func(testing.TB, Executor, *tls.Config, *tls.Config) (*TLS, *tls.Conn){tlsServed, tlsDialed} {
			own, other := made(t, x, of(server, version), client)
			sent := beside(x, func() {
				if _, err := io.CopyBuffer(struct{ io.Writer }{own}, noise(1, size), make([]byte, 100<<10)); err != nil {
					t.Errorf("write: %v", err)
				}
				if err := own.CloseWrite(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			var peer sync.WaitGroup
			peer.Go(func() { sameNoise(t, other, 1, size) })
			peer.Go(func() {
				_, _ = io.Copy(other, noise(2, size))
				_ = other.CloseWrite()
			})
			sameNoise(t, own, 2, size)
			_ = sent.Wait(time.Time{})
			inGoroutine(x, peer.Wait)
			if err := own.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTLSCut has every byte come by itself, and what was read before in parts
// of every length.
func TestTLSCut(t *testing.T) {
	server, client := configs(t)
	eachVersion(t, func(b *bed, x Executor, version uint16) {
		t := b.t
		for early := 0; early < 300; early = 2*early + 1 {
			c, peer := pair(t, x, "tcp")
			other := tls.Client(dribble{peer}, of(client, version))
			want := strings.Repeat("some text ", 20)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.WriteString(other, want)
				exchange(t, other, want)
				_ = other.CloseWrite()
			}()
			// A hello of TLS 1.2 is shorter than the longest of these.
			first := make([]byte, min(early, shortestHello))
			if _, err := io.ReadFull(c, first); err != nil {
				t.Errorf("early: %v", err)
			}
			own := ServeTLS(c, first, server)
			clear(first)
			if err := own.Handshake(time.Time{}); err != nil {
				t.Errorf("handshake: %v", err)
				return
			}
			got := make([]byte, len(want))
			for i := 0; i < len(got); i += 3 {
				if err := own.Readable(); err != nil {
					t.Errorf("readable: %v", err)
				}
				if !own.Pending() || !own.Stale() {
					t.Error("readable, and nothing is there")
				}
				end := min(i+3, len(got))
				if _, err := io.ReadFull(own, got[i:end]); err != nil {
					t.Errorf("read: %v", err)
				}
			}
			if string(got) != want {
				t.Errorf("got %q", got)
			}
			if got, err := io.ReadAll(struct{ io.Reader }{echoing{t, own}}); err != nil || string(got) != want {
				t.Errorf("got %q, %v", got, err)
			}
			x.Block(func() { <-done })
			_ = own.Close()
		}
	})
}

// shortestHello is less than any client says at once.
const shortestHello = 120

// echoing writes back what is read.
type echoing struct {
	t   testing.TB
	own *TLS
}

func (e echoing) Read(p []byte) (int, error) {
	n, err := e.own.Read(p)
	if _, err := e.own.Write(p[:n]); err != nil {
		e.t.Errorf("write: %v", err)
	}
	return n, err
}

// TestTLSEnd has connections end in order and otherwise.
func TestTLSEnd(t *testing.T) {
	server, client := configs(t)
	for name, test := range map[string]struct {
		end  func(other *tls.Conn)
		want error
	}{
		"close_notify": {func(other *tls.Conn) { _ = other.Close() }, io.EOF},
		"half":         {func(other *tls.Conn) { _ = other.CloseWrite() }, io.EOF},
		"cut":          {func(other *tls.Conn) { _ = other.NetConn().Close() }, io.ErrUnexpectedEOF},
		"cut half":     {func(other *tls.Conn) { _ = other.NetConn().(*net.TCPConn).CloseWrite() }, io.ErrUnexpectedEOF},
		"cut in a record": {func(other *tls.Conn) {
			_, _ = other.NetConn().Write([]byte{23, 3, 3, 0, 9, 1})
			_ = other.NetConn().Close()
		}, io.ErrUnexpectedEOF},
		"cut in a large record": {func(other *tls.Conn) {
			_, _ = other.NetConn().Write([]byte{23, 3, 3, 9, 9, 1})
			_ = other.NetConn().Close()
		}, io.ErrUnexpectedEOF},
		"cut in a header": {func(other *tls.Conn) { _, _ = other.NetConn().Write([]byte{23, 3}); _ = other.NetConn().Close() }, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			eachTask(t, func(b *bed, x Executor) {
				t := b.t
				own, other := tlsServed(t, x, server, client)
				defer func() { _ = own.Close() }()
				_, _ = io.WriteString(other, "last")
				test.end(other)
				got := make([]byte, 4)
				if n, err := own.Read(got); err != nil || string(got[:n]) != "last" {
					t.Errorf("read %q, %v", got[:n], err)
				}
				for range 2 {
					if n, err := own.Read(got); n != 0 || err != test.want { //nolint:errorlint // the very value
						t.Errorf("at the end: %d, %v", n, err)
					}
				}
				if !own.Stale() || !own.Pending() || own.Readable() != nil {
					t.Error("the end is not there")
				}
			})
		})
	}
}

// TestTLSHalfClose ends our side first, and the peer goes on.
func TestTLSHalfClose(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		own, other := tlsServed(t, x, server, client)
		_, _ = own.Write([]byte("last"))
		for range 2 {
			if err := own.CloseWrite(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		if _, err := own.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write after it: %v", err)
		}
		x.Block(func() {
			if got, err := io.ReadAll(other); err != nil || string(got) != "last" {
				t.Errorf("the peer read %q, %v", got, err)
			}
			if n, err := other.NetConn().Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // the very value
				t.Errorf("the socket is not shut: %d, %v", n, err)
			}
			_, _ = io.WriteString(other, "answer")
			_ = other.Close()
		})
		if got, err := io.ReadAll(own); string(got) != "answer" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		atRest(t, own)
		_ = own.Close()

		// Where there is no room, it does not wait.
		own, other = tlsServed(t, x, server, client)
		own.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		written := int64(0)
		for {
			n, err := own.Write(make([]byte, 256<<10))
			if written += int64(n); err != nil {
				break
			}
		}
		own.SetWriteDeadline(time.Time{})
		if err := own.CloseWrite(); err != nil {
			t.Errorf("close: %v", err)
		}
		x.Block(func() {
			if n, err := io.Copy(io.Discard, other); n != written || err != nil {
				t.Errorf("the peer read %d of %d, %v", n, written, err)
			}
		})
		_ = own.Close()
	})
}
