//go:build unix

package netloop

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestTLSDeadline has deadlines pass, which break nothing.
func TestTLSDeadline(t *testing.T) {
	server, client := configs(t)
	soon := func() time.Time { return time.Now().Add(20 * time.Millisecond) }
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
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
			eachTask(t, func(b *bed, x Executor) {
				t := b.t
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
	}
}

// TestTLSClose has the peer learn whether that was the end.
func TestTLSClose(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
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
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
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
}

// TestTLSBlock has a callback wait for another task of the same executor.
func TestTLSBlock(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
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
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
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
}

// TestTLSGuard has the end of a context interrupt what it guards.
func TestTLSGuard(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
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
}
