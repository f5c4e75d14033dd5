//go:build unix

package netloop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newPipeOf returns a pipe of x, or ends the task where there is none.
func newPipeOf(t testing.TB, x Executor) *Pipe {
	t.Helper()
	p, err := x.NewPipe()
	if err != nil {
		t.Errorf("no pipe: %v", err)
		panic(err)
	}
	return p
}

// eachPipe runs a test on every driver that has pipes.
func eachPipe(t *testing.T, test func(b *bed, x Executor)) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("there is no splice here")
	}
	each(t, func(b *bed) { b.task(b.t, func(x Executor) { test(b, x) }) })
}

// splicer reads a connection through a pipe and another connection.
type splicer struct {
	to, from Conn
	pipe     *Pipe
}

// step moves what is there of n bytes. One of the errors is nil, or both.
func (s splicer) step(n int64) (moved int64, readErr, writeErr error) {
	if _, readErr = s.from.ReadInto(s.pipe, n); readErr != nil {
		return 0, readErr, nil
	}
	m, writeErr := s.to.WriteFrom(s.pipe)
	return int64(m), nil, writeErr
}

// move moves n bytes.
func (s splicer) move(n int64) (moved int64, readErr, writeErr error) {
	for moved < n && readErr == nil && writeErr == nil {
		var m int64
		m, readErr, writeErr = s.step(n - moved)
		moved += m
	}
	return moved, readErr, writeErr
}

// lazily passes bytes on a few at a time.
type lazily struct {
	net.Conn
	most int
}

func (l lazily) pause() {
	if rand.IntN(32) == 0 {
		<-time.After(time.Millisecond)
	}
}

func (l lazily) Read(p []byte) (int, error) {
	l.pause()
	return l.Conn.Read(p[:min(len(p), 1+rand.IntN(l.most))])
}

func (l lazily) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		l.pause()
		var m int
		m, err = l.Conn.Write(p[:min(len(p), 1+rand.IntN(l.most))])
		n, p = n+m, p[m:]
	}
	return n, err
}

// TestPipeMoves moves streams of all sizes, one after another on the same
// connections, as quickly as both sides are.
func TestPipeMoves(t *testing.T) {
	for _, test := range []struct {
		name, from, to string
		write, read    int // bytes at a time, at most
	}{
		{"both quick", "tcp", "tcp", 1 << 20, 1 << 20},
		{"slow writer", "tcp", "tcp", 3000, 1 << 20},
		{"slow reader", "tcp", "tcp", 1 << 20, 3000},
		{"from unix", "unix", "tcp", 50000, 20000},
		{"to unix", "tcp", "unix", 20000, 50000},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachPipe(t, func(b *bed, x Executor) {
				t := b.t
				from, source := pair(t, x, test.from)
				to, sink := pair(t, x, test.to)
				defer func() { _, _ = from.Close(), to.Close() }()
				sizes := []int64{1, 4095, pipeSize - 1, pipeSize, pipeSize + 1, 2 << 20}
				for range 20 {
					sizes = append(sizes, 1+rand.Int64N(1<<rand.IntN(20)))
				}
				go func() {
					for i, size := range sizes {
						_, _ = io.CopyBuffer(lazily{source, test.write}, noise(byte(i), size), make([]byte, 64<<10))
					}
				}()
				done := make(chan struct{})
				go func() {
					defer close(done)
					for i, size := range sizes {
						sameNoise(t, io.LimitReader(lazily{sink, test.read}, size), byte(i), size)
					}
				}()
				for _, size := range sizes {
					p := newPipeOf(t, x)
					if moved, readErr, writeErr := (splicer{to, from, p}).move(size); moved != size || readErr != nil || writeErr != nil {
						t.Errorf("moved %d of %d: %v, %v", moved, size, readErr, writeErr)
						p.Close()
						return
					}
					if p.Len() != 0 {
						t.Errorf("%d bytes are left", p.Len())
					}
					p.Close()
					p.Close()
				}
				x.Block(func() { <-done })
			})
		})
	}
}

// TestPipeEnds has either side end in the middle, and blames the right one.
func TestPipeEnds(t *testing.T) {
	reset := func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0); _ = conn.Close() }
	for _, test := range []struct {
		name string
		end  func(c splicer, source, sink net.Conn)
		read error // nil: it is the writing that fails
	}{
		{"source closes", func(_ splicer, source, _ net.Conn) { _ = source.Close() }, io.EOF},
		{"source breaks", func(_ splicer, source, _ net.Conn) { reset(source) }, syscall.ECONNRESET},
		{"sink breaks", func(_ splicer, source, sink net.Conn) { reset(sink); _, _ = io.Copy(source, noise(1, 64<<20)) }, nil},
		{"sink has closed", func(_ splicer, source, sink net.Conn) { _ = sink.Close(); _, _ = io.Copy(source, noise(1, 64<<20)) }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachPipe(t, func(b *bed, x Executor) {
				t := b.t
				from, source := pair(t, x, "tcp")
				to, sink := pair(t, x, "tcp")
				p := newPipeOf(t, x)
				defer p.Close()
				s := splicer{to, from, p}
				const early = 100 << 10
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = io.Copy(source, noise(1, early))
					sameNoise(t, io.LimitReader(sink, early), 1, early)
					test.end(s, source, sink)
				}()
				moved, readErr, writeErr := s.move(1 << 40)
				if moved < early || moved-early > 64<<20 {
					t.Errorf("moved %d", moved)
				}
				broken := errors.Is(writeErr, syscall.EPIPE) || errors.Is(writeErr, syscall.ECONNRESET)
				if !errors.Is(readErr, test.read) || broken != (test.read == nil) || !broken && writeErr != nil {
					t.Errorf("read: %v, want %v; written: %v", readErr, test.read, writeErr)
				}
				if test.read == nil { // it stays, and so does what the pipe holds
					held := p.Len()
					if n, err := to.WriteFrom(p); held == 0 || n != 0 || err == nil || p.Len() != held {
						t.Errorf("again: %d, %v with %d of %d left", n, err, p.Len(), held)
					}
				}
				_, _ = from.Close(), to.Close()
				x.Block(func() { <-done })
			})
		})
	}
}

// TestPipeOwnEnd ends this process's side, before or while the other waits.
func TestPipeOwnEnd(t *testing.T) {
	cause := errors.New("no longer wanted")
	for _, test := range []struct {
		name string
		end  func(c Conn)
		want error
	}{
		{"interrupt", func(c Conn) { c.Interrupt(cause) }, cause},
		{"close", func(c Conn) { _ = c.Close() }, net.ErrClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachPipe(t, func(b *bed, x Executor) {
				t := b.t
				for _, late := range []bool{true, false} {
					from, source := pair(t, x, "tcp")
					to, _ := pair(t, x, "tcp")
					full, empty := newPipeOf(t, x), newPipeOf(t, x)
					_ = fillNow(to)
					_, _ = source.Write([]byte("stays"))
					if n, err := from.ReadInto(full, 100); n != 5 || err != nil {
						t.Errorf("read %d, %v", n, err)
					}
					end := func() { test.end(from); test.end(to) }
					if !late {
						end()
					}
					var readErr, writeErr error
					reading := beside(x, func() { _, readErr = from.ReadInto(empty, 1) })
					writing := beside(x, func() { _, writeErr = to.WriteFrom(full) })
					if late {
						_ = x.NewEvent().Wait(time.Now().Add(5 * time.Millisecond))
						end()
					}
					_, _ = reading.Wait(time.Time{}), writing.Wait(time.Time{})
					if !errors.Is(readErr, test.want) || !errors.Is(writeErr, test.want) || full.Len() != 5 {
						t.Errorf("read: %v, written: %v, %d left", readErr, writeErr, full.Len())
					}
					full.Close()
					empty.Close()
					_, _ = from.Close(), to.Close()
				}
				c, peer := pair(t, x, "tcp")
				p := newPipeOf(t, x)
				defer p.Close()
				_, _ = peer.Write([]byte("x"))
				_, _ = c.ReadInto(p, 1)
				_ = c.CloseWrite()
				if n, err := c.WriteFrom(p); n != 0 || !errors.Is(err, syscall.EPIPE) {
					t.Errorf("after the end of writing: %d, %v", n, err)
				}
				_ = c.Close()
			})
		})
	}
}

// fillNow writes until there is no room, and none comes: the system makes some
// more for a while.
func fillNow(c Conn) error {
	defer c.SetWriteDeadline(time.Time{})
	block := make([]byte, 64<<10)
	for quiet := 0; quiet < 5; {
		c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		n, err := c.Write(block)
		if n > 0 {
			quiet = 0
			continue
		}
		if !errors.Is(err, errDeadline) {
			return err
		}
		quiet++
	}
	return nil
}

// TestPipeDeadline has the deadline of either side pass; nothing is lost.
func TestPipeDeadline(t *testing.T) {
	eachPipe(t, func(b *bed, x Executor) {
		t := b.t
		from, source := pair(t, x, "tcp")
		to, sink := pair(t, x, "tcp")
		defer func() { _, _ = from.Close(), to.Close() }()
		p := newPipeOf(t, x)
		defer p.Close()
		from.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		if n, err := from.ReadInto(p, 1); n != 0 || !errors.Is(err, errDeadline) {
			t.Errorf("read %d, %v", n, err)
		}
		if n, err := to.WriteFrom(p); n != 0 || err != nil {
			t.Errorf("an empty pipe: %d, %v", n, err)
		}
		from.SetReadDeadline(time.Time{})
		const size = 64 << 20
		go func() { _, _ = io.Copy(source, noise(3, size)) }()
		s := splicer{to, from, p}
		to.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		moved, readErr, writeErr := s.move(size)
		if readErr != nil || !errors.Is(writeErr, errDeadline) || p.Len() == 0 {
			t.Errorf("read: %v, written: %v, %d left", readErr, writeErr, p.Len())
		}
		done := make(chan struct{})
		go func() { defer close(done); sameNoise(t, io.LimitReader(sink, size), 3, size) }()
		to.SetWriteDeadline(time.Time{})
		n, err := to.WriteFrom(p)
		if err != nil || n == 0 || p.Len() != 0 {
			t.Errorf("after it: %d, %v, %d left", n, err, p.Len())
		}
		moved += int64(n)
		if rest, readErr, writeErr := s.move(size - moved); rest != size-moved || readErr != nil || writeErr != nil {
			t.Errorf("the rest: %d of %d, %v, %v", rest, size-moved, readErr, writeErr)
		}
		x.Block(func() { <-done })
	})
}

// TestPipeUrgent has urgent bytes in the way, which a pipe cannot get past.
func TestPipeUrgent(t *testing.T) {
	for _, closed := range []bool{true, false} {
		t.Run(fmt.Sprintf("closed %v", closed), func(t *testing.T) {
			eachPipe(t, func(b *bed, x Executor) { pipeUrgent(b.t, x, closed) })
		})
	}
}

func pipeUrgent(t testing.TB, x Executor, closed bool) {
	t.Helper()
	c, peer := pair(t, x, "tcp")
	defer func() { _ = c.Close() }()
	raw, err := peer.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Error(err)
	}
	_, _ = peer.Write([]byte("before"))
	_ = raw.Control(func(descriptor uintptr) {
		if err := unix.Sendto(int(descriptor), []byte("!"), unix.MSG_OOB, nil); err != nil {
			t.Error(err)
		}
	})
	_, _ = peer.Write([]byte("after"))
	if closed {
		_ = peer.Close()
	}
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	p := newPipeOf(t, x)
	defer p.Close()
	unsupported, got := false, 0
	for err == nil && (closed || got < len("beforeafter")) {
		var n int
		if n, err = c.ReadInto(p, 100); errors.Is(err, errors.ErrUnsupported) {
			unsupported = true
			n, err = c.Read(make([]byte, 100))
		}
		got += n
		if p.Len() > 0 {
			p.Close()
			p = newPipeOf(t, x)
		}
	}
	if !unsupported || got != len("beforeafter") || closed && !errors.Is(err, io.EOF) || !closed && err != nil {
		t.Errorf("got %d bytes, %v; read otherwise: %v", got, err, unsupported)
	}
}

// TestPipeStock looks at which pipes are kept.
func TestPipeStock(t *testing.T) {
	eachPipe(t, func(b *bed, x Executor) {
		t := b.t
		c, peer := pair(t, x, "tcp")
		defer func() { _ = c.Close() }()
		p := newPipeOf(t, x)
		first := p.pipe
		p.Close()
		p.Close()
		p = newPipeOf(t, x)
		second := newPipeOf(t, x)
		if p.pipe != first || second.pipe == first {
			t.Error("a pipe given back is not the next, or is twice")
		}
		_, _ = peer.Write([]byte("secret"))
		if n, err := c.ReadInto(p, 0); n != 0 || err != nil {
			t.Errorf("nothing wanted: %d, %v", n, err)
		}
		if n, err := c.ReadInto(p, 100); n != 6 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a pipe with bytes is filled")
				}
			}()
			_, _ = c.ReadInto(p, 1)
		}()
		p.Close()
		second.Close()
		before := descriptors()
		var all []*Pipe
		for {
			p, err := x.NewPipe()
			if err != nil {
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("no more: %v", err)
				}
				break
			}
			if p.pipe == first {
				t.Error("a pipe with bytes was kept")
			}
			all = append(all, p)
		}
		if len(all) != maxPipes {
			t.Errorf("%d pipes", len(all))
		}
		for _, p := range all {
			p.Close()
		}
		if now := descriptors(); now != before+2*(idlePipes-1) {
			t.Errorf("%d descriptors, %d before", now, before)
		}
	})
}

// TestPipeStop has pipes that are in use while the driver stops. TestStop finds
// those that are kept.
func TestPipeStop(t *testing.T) {
	eachPipe(t, func(b *bed, x Executor) {
		t := b.t
		newPipeOf(t, x).Close()
		p := newPipeOf(t, x)
		defer p.Close()
		go b.Stop()
		_ = x.NewEvent().Wait(time.Time{})
		c, err := x.NewPipe()
		if err == nil { // it stops at the end of its tasks
			c.Close()
		}
	})
}

const noPipeChild = "NETLOOP_NO_PIPE"

// TestNoPipe has none to be had: the descriptors are exhausted, in a process of
// its own, or the size is not granted.
func TestNoPipe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no splice here")
	}
	if os.Getenv(noPipeChild) == "" {
		before := descriptors()
		if _, err := newPipe(-1); !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("a size that cannot be: %v", err)
		}
		if after := descriptors(); after != before {
			t.Errorf("%d descriptors, %d before", after, before)
		}
		child := exec.Command(os.Args[0], "-test.run=^TestNoPipe$")
		child.Env = append(os.Environ(), noPipeChild+"=1")
		if output, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		return
	}
	each(t, func(b *bed) {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			b.t.Fatal(err)
		}
		none := syscall.Rlimit{Cur: 3, Max: limit.Max}
		b.task(b.t, func(x Executor) {
			_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none)
			_, err := x.NewPipe()
			_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
			if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, syscall.EMFILE) {
				b.t.Errorf("a pipe without descriptors: %v", err)
			}
		})
	})
}

// TestPipesAreApart has many transfers take pipes in turn, most of which break
// off: no byte of one may come out of another.
func TestPipesAreApart(t *testing.T) {
	eachPipe(t, func(b *bed, x Executor) {
		t := b.t
		var ends []Event
		for g := range 8 {
			ends = append(ends, beside(x, func() {
				for i := range 20 {
					from, source := pair(t, x, "tcp")
					to, sink := pair(t, x, "tcp")
					mark := byte(g*20 + i)
					block := bytes.Repeat([]byte{mark}, 300<<10)
					go func() { _, _ = source.Write(block); _ = source.Close() }()
					taken := make(chan struct{})
					go func() {
						defer close(taken)
						defer func() { _ = sink.Close() }()
						got, _ := io.ReadAll(io.LimitReader(sink, 1+rand.Int64N(600<<10)))
						if slices.ContainsFunc(got, func(b byte) bool { return b != mark }) {
							t.Errorf("bytes of another transfer came out of %d", mark)
						}
					}()
					p := newPipeOf(t, x)
					_, _, _ = splicer{to, from, p}.move(rand.Int64N(400 << 10))
					if p.Len() == 0 && rand.IntN(2) == 0 {
						_, _ = from.ReadInto(p, 1000)
					}
					p.Close()
					_, _ = from.Close(), to.Close()
					x.Block(func() { <-taken })
				}
			}))
		}
		for _, end := range ends {
			_ = end.Wait(time.Time{})
		}
	})
}
