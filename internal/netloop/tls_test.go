//go:build unix

package netloop

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
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
	versions(t, func(t *testing.T, version uint16) {
		t.Helper()
		each(t, func(b *bed) {
			t := b.t
			b.task(t, func(x Executor) {
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
		})
	})
}

// TestTLSCut has every byte come by itself, and what was read before in parts
// of every length.
func TestTLSCut(t *testing.T) {
	server, client := configs(t)
	versions(t, func(t *testing.T, version uint16) {
		t.Helper()
		each(t, func(b *bed) {
			t := b.t
			b.task(t, func(x Executor) {
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
		})
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
			each(t, func(b *bed) {
				t := b.t
				b.task(t, func(x Executor) {
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
		})
	}
}

// TestTLSHalfClose ends our side first, and the peer goes on.
func TestTLSHalfClose(t *testing.T) {
	server, client := configs(t)
	each(t, func(b *bed) {
		t := b.t
		b.task(t, func(x Executor) {
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
	})
}

// TestTLSDeadline has deadlines pass, which break nothing.
func TestTLSDeadline(t *testing.T) {
	server, client := configs(t)
	soon := func() time.Time { return time.Now().Add(20 * time.Millisecond) }
	each(t, func(b *bed) {
		t := b.t
		b.task(t, func(x Executor) {
			own, other := tlsServed(t, x, server, client)
			defer func() { _ = own.Close() }()
			var one [1]byte
			wantPassed := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: %v", what, err)
				}
			}
			read := func() error { _, err := own.Read(one[:]); return err }
			own.SetReadDeadline(soon())
			wantPassed("read", read())
			wantPassed("readable", own.Readable())
			if strings.HasSuffix(t.Name(), "/loop") { // on goroutines it does not wait
				wantPassed("await", own.Await())
			}
			own.SetReadDeadline(time.Time{})
			_, _ = io.WriteString(other, "ab")
			if err := read(); err != nil {
				t.Errorf("it broke something: %v", err)
			}
			own.SetReadDeadline(soon())
			settle(t, x, "the deadline passes", func() bool { return own.records.cannotRead(true) != nil })
			wantPassed("read of what is deciphered", read())
			own.SetReadDeadline(time.Now().Add(time.Hour))
			if err := errors.Join(own.Readable(), own.Await(), read()); err != nil || one[0] != 'b' {
				t.Errorf("after it: %v", err)
			}
			done := beside(x, func() { wantPassed("moved nearer", read()) })
			own.SetReadDeadline(soon())
			_ = done.Wait(time.Time{})
			own.SetReadDeadline(time.Time{})

			// What a deadline cuts off goes on with what comes after it.
			const size = 12 << 20
			source, chunk := noise(3, size), make([]byte, 300<<10)
			var read64 sync.WaitGroup
			started := false
			cut := 0
			for {
				n, err := io.ReadFull(source, chunk)
				rest := chunk[:n]
				for len(rest) > 0 || own.Unsent() > 0 {
					own.SetWriteDeadline(soon())
					n, err := own.Write(rest)
					rest = rest[n:]
					if err == nil {
						continue
					}
					wantPassed("write", err)
					if cut++; cut >= 3 && !started {
						if own.Unsent() == 0 {
							t.Error("nothing waits, and yet it was cut off")
						}
						started = true
						read64.Go(func() { sameNoise(t, other, 3, size) })
					}
				}
				if err != nil {
					break
				}
			}
			if cut < 3 {
				t.Error("nothing was cut off")
			}
			own.SetWriteDeadline(time.Time{})
			_ = own.CloseWrite()
			x.Block(read64.Wait)
			own.SetWriteDeadline(time.Unix(1, 0))
		})
	})
}

// TestTLSGivesUp ends waits by Interrupt, Close and Reset.
func TestTLSGivesUp(t *testing.T) {
	server, client := configs(t)
	cause := errors.New("no longer wanted")
	for name, test := range map[string]struct {
		end  func(own *TLS)
		want error
		peer error
	}{
		"interrupt": {func(own *TLS) { own.Interrupt(cause) }, cause, nil},
		"close":     {func(own *TLS) { _ = own.Close() }, net.ErrClosed, nil},
		"reset":     {(*TLS).Reset, net.ErrClosed, syscall.ECONNRESET},
		"detach": {func(own *TLS) {
			if raw, err := own.Detach(); err == nil {
				_ = raw.Close()
			}
		}, net.ErrClosed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(b *bed) {
				t := b.t
				b.task(t, func(x Executor) {
					own, other := tlsServed(t, x, server, client)
					failures := map[string]error{}
					var reading, writing error
					waits := []Event{}
					if name != "detach" { // nobody may wait then
						waits = append(waits,
							beside(x, func() {
								_, err := own.Read(make([]byte, 1))
								reading = err
							}),
							beside(x, func() {
								err := fill(own)
								writing = err
							}))
						settle(t, x, "the writer waits", func() bool { return own.Unsent() > 0 })
					}
					test.end(own)
					for _, wait := range waits {
						_ = wait.Wait(time.Time{})
					}
					if name != "detach" {
						failures["read"], failures["write"] = reading, writing
					}
					own.Interrupt(errors.New("another"))
					_, failures["read again"] = own.Read(make([]byte, 1))
					_, failures["write again"] = own.Write([]byte("x"))
					failures["readable"], failures["await"] = own.Readable(), own.Await()
					failures["close write"] = own.CloseWrite()
					for what, err := range failures {
						if !errors.Is(err, test.want) {
							t.Errorf("%s: %v", what, err)
						}
					}
					if !own.Stale() {
						t.Error("it is good for another exchange")
					}
					for range 2 {
						if err := own.Close(); err != nil {
							t.Errorf("close: %v", err)
						}
					}
					own.Reset()
					if _, err := own.Detach(); !errors.Is(err, net.ErrClosed) {
						t.Errorf("detach: %v", err)
					}
					x.Block(func() {
						_, err := io.Copy(io.Discard, other)
						if test.peer != nil && !errors.Is(err, test.peer) {
							t.Errorf("the peer reads to %v", err)
						}
					})
				})
			})
		})
	}
}

// TestTLSClose has the peer learn whether that was the end.
func TestTLSClose(t *testing.T) {
	server, client := configs(t)
	each(t, func(b *bed) {
		t := b.t
		b.task(t, func(x Executor) {
			own, other := tlsServed(t, x, server, client)
			_, _ = own.Write([]byte("all"))
			_ = own.Close()
			x.Block(func() {
				if got, err := io.ReadAll(other); string(got) != "all" || err != nil {
					t.Errorf("the peer read %q, %v", got, err)
				}
			})
			own, other = tlsServed(t, x, server, of(client, tls.VersionTLS12))
			writing := beside(x, func() { _ = fill(own) })
			sent, looks := int64(0), 0
			settle(t, x, "the writer waits for good", func() bool {
				if now := own.Sent(); own.Unsent() == 0 || now != sent {
					sent, looks = now, 0
				}
				looks++
				return looks > 20
			})
			_ = own.Close()
			_ = writing.Wait(time.Time{})
			x.Block(func() {
				got, _ := io.ReadAll(other.NetConn()) // however it ends
				if last := lastRecord(got); last != recordData {
					t.Errorf("of %d bytes the last record is a %d", len(got), last)
				}
			})
		})
	})
}

// lastRecord is the type of the last record that begins in data, which TLS 1.2
// tells in clear (RFC 5246 6.2.1).
func lastRecord(data []byte) (kind byte) {
	for len(data) >= headerBytes {
		kind = data[0]
		data = data[min(headerBytes+int(data[3])<<8+int(data[4]), len(data)):]
	}
	return kind
}

// TestTLSConn has the rest of what a Conn does.
func TestTLSConn(t *testing.T) {
	server, client := configs(t)
	server.NextProtos, client.NextProtos = []string{"h2"}, []string{"h2"}
	each(t, func(b *bed) {
		t := b.t
		b.task(t, func(x Executor) {
			c, peer := pair(t, x, "tcp")
			own, other := ServeTLS(c, nil, server), tls.Client(peer, client)
			if own.ConnectionState().HandshakeComplete || own.Pending() || !own.Stale() {
				t.Error("the handshake was not done yet")
			}
			for what, err := range map[string]error{
				"read":        func() error { _, err := own.Read(make([]byte, 1)); return err }(),
				"write":       func() error { _, err := own.Write([]byte("x")); return err }(),
				"readable":    own.Readable(),
				"await":       own.Await(),
				"close write": own.CloseWrite(),
			} {
				if !errors.Is(err, errNoHandshake) {
					t.Errorf("%s before the handshake: %v", what, err)
				}
			}
			shake(t, own, other)
			if err := own.Handshake(time.Unix(1, 0)); err != nil {
				t.Errorf("a second handshake: %v", err)
			}
			if state := own.ConnectionState(); state.ServerName != "server" || state.NegotiatedProtocol != "h2" {
				t.Errorf("the state: %+v", state)
			}
			if own.Sent() == 0 {
				t.Error("a handshake sends nothing")
			}
			own.SetData(7)
			if c.Data() != 7 || own.Data() != 7 || own.Inner() != c || own.Executor() != x {
				t.Error("the inner Conn is another")
			}
			if own.RemoteAddr() != c.RemoteAddr() || own.LocalAddr().String() != peer.RemoteAddr().String() {
				t.Error("it has other addresses")
			}
			if err := own.Control(func(uintptr) {}); err != nil {
				t.Errorf("control: %v", err)
			}
			if n, err := own.Read(nil); n != 0 || err != nil {
				t.Errorf("an empty read: %d, %v", n, err)
			}
			if n, err := own.Write(nil); n != 0 || err != nil {
				t.Errorf("an empty write: %d, %v", n, err)
			}
			_, readErr := own.ReadInto(nil, 1)
			_, writeErr := own.WriteFrom(nil)
			if !errors.Is(readErr, errors.ErrUnsupported) || !errors.Is(writeErr, errors.ErrUnsupported) {
				t.Errorf("splice: %v, %v", readErr, writeErr)
			}
			gone := x.NewEvent()
			own.WatchHangup(gone.Set, true)
			_ = other.Close()
			if err := gone.Wait(time.Now().Add(30 * time.Second)); err != nil {
				t.Errorf("it is not told: %v", err)
			}
			_ = own.Close()
		})
	})
}

// TestTLSBlock has a callback wait for another task of the same executor.
func TestTLSBlock(t *testing.T) {
	server, client := configs(t)
	each(t, func(b *bed) {
		t := b.t
		b.task(t, func(x Executor) {
			release := make(chan struct{})
			blocking := server.Clone()
			blocking.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				if hello.Conn.RemoteAddr() == nil || hello.Conn.LocalAddr() == nil {
					t.Error("the client has no address")
				}
				x.Go(func() { close(release) })
				BlockIn(hello.Conn, func() { <-release })
				return nil, nil
			}
			own, _ := tlsServed(t, x, blocking, client)
			_ = own.Close()
			called := false
			BlockIn(nil, func() { called = true })
			if !called {
				t.Error("elsewhere it is not run")
			}
		})
	})
}

// TestTLSStop stops the driver while a TLS waits for everything, and at rest.
func TestTLSStop(t *testing.T) {
	server, client := configs(t)
	for _, k := range drivers() {
		t.Run(k.name, func(t *testing.T) {
			before := descriptors()
			t.Run("all", func(t *testing.T) {
				b := newBed(t, k)
				x := b.Executors()[0]
				var waits sync.WaitGroup
				started := make(chan struct{}, 3)
				for name, wait := range map[string]func() error{
					"read": func() error {
						own, _ := tlsServed(t, x, server, client)
						started <- struct{}{}
						_, err := own.Read(make([]byte, 1))
						return err
					},
					"write": func() error {
						own, _ := tlsServed(t, x, server, client)
						started <- struct{}{}
						return fill(own)
					},
					"handshake": func() error {
						c, _ := pair(t, x, "tcp")
						started <- struct{}{}
						return ServeTLS(c, nil, server).Handshake(time.Time{})
					},
				} {
					waits.Add(1)
					x.Post(func() {
						defer waits.Done()
						if err := wait(); !errors.Is(err, ErrStopped) {
							t.Errorf("%s: %v", name, err)
						}
					})
				}
				for range 3 {
					<-started
				}
				b.Stop()
				waits.Wait()
			})
			eventually(t, "no descriptor is left", func() bool { return descriptors() <= before })
		})
	}
}

// TestTLSRenegotiation is never allowed: the configuration of others stays.
func TestTLSRenegotiation(t *testing.T) {
	server, client := configs(t)
	client.Renegotiation = tls.RenegotiateFreelyAsClient
	each(t, func(b *bed) {
		t := b.t
		b.task(t, func(x Executor) {
			own, other := tlsDialed(t, x, of(server, tls.VersionTLS12), client)
			go pingBack(other)
			if _, err := own.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			if n, err := own.Read(make([]byte, 2)); n != 1 || err != nil {
				t.Error(n, err)
			}
			_ = own.Close()
			if client.Renegotiation != tls.RenegotiateFreelyAsClient {
				t.Error("the configuration was changed")
			}
		})
	})
}

// TestTLSGuard has the end of a context interrupt what it guards.
func TestTLSGuard(t *testing.T) {
	server, client := configs(t)
	each(t, func(b *bed) {
		t := b.t
		b.task(t, func(x Executor) {
			own, _ := tlsServed(t, x, server, client)
			defer func() { _ = own.Close() }()
			ctx, cancel := context.WithCancel(context.Background())
			guard := NewGuard(ctx, x, own)
			defer guard.End()
			x.Go(cancel)
			if _, err := own.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
				t.Errorf("read: %v", err)
			}
		})
	})
}
