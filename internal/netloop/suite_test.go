//go:build unix

package netloop

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// child runs one of the tests in a process of its own, which a variable with a value
// tells so. It says things in lines, and is told them by ask.
func child(t testing.TB, test, variable, value string) (process *exec.Cmd, ask io.WriteCloser, lines *bufio.Reader) {
	t.Helper()
	process = exec.Command(os.Args[0], "-test.run=^"+test+"$")
	process.Env = append(os.Environ(), variable+"="+value)
	ask, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	return process, ask, bufio.NewReader(output)
}

// inChildren runs serve by each driver in a process of its own, where the test is
// started again with a variable, and the test beside it. serve prints an address, and
// ends with its standard input.
func inChildren(t *testing.T, variable string, serve func(*testing.T, kind), test func(t *testing.T, address string, ask io.Writer, lines *bufio.Reader)) {
	t.Helper()
	for _, k := range drivers() {
		if os.Getenv(variable) == k.name {
			serve(t, k)
			return
		}
	}
	for _, k := range drivers() {
		t.Run(k.name, func(t *testing.T) {
			parent, _, _ := strings.Cut(t.Name(), "/")
			process, ask, lines := child(t, parent, variable, k.name)
			address, _ := lines.ReadString('\n')
			test(t, strings.TrimSpace(address), ask, lines)
			_ = ask.Close()
			rest, _ := io.ReadAll(lines)
			if err := process.Wait(); err != nil {
				t.Errorf("the child: %v\n%s", err, rest)
			}
		})
	}
}

// kind is a driver that the suite runs on.
type kind struct {
	name  string
	start func(log *slog.Logger) (Driver, error)
}

// goroutines looks at watched connections more often than it would, so that
// tests need not wait for it.
var goroutines = kind{"goroutine", func(log *slog.Logger) (Driver, error) {
	s := NewGoroutines(log)
	s.sweeper.interval = time.Millisecond
	return s, nil
}}

// bed is what a test stands on.
type bed struct {
	Driver
	t      testing.TB
	log    *logtest.Buffer
	panics bool // the test makes tasks panic
}

func newBed(t testing.TB, k kind) *bed {
	t.Helper()
	b := &bed{t: t, log: &logtest.Buffer{}}
	driver, err := k.start(slog.New(slog.NewTextHandler(b.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	b.Driver = driver
	t.Cleanup(func() {
		driver.Stop()
		if told := b.log.String(); strings.Contains(told, "panicked") != b.panics || t.Failed() {
			t.Errorf("the log says:\n%s", told)
		}
	})
	return b
}

// each runs a test on every driver.
func each(t *testing.T, test func(b *bed)) {
	t.Helper()
	for _, k := range drivers() {
		t.Run(k.name, func(t *testing.T) { test(newBed(t, k)) })
	}
}

// task runs f as a task of the first executor, to its end.
func (b *bed) task(t testing.TB, f func(x Executor)) {
	t.Helper()
	x := b.Executors()[0]
	done := make(chan struct{})
	if !x.Post(func() { defer close(done); f(x) }) {
		t.Fatal("the executor takes no tasks")
	}
	<-done
}

// eachTask runs a test as a task of each driver.
func eachTask(t *testing.T, test func(b *bed, x Executor)) {
	t.Helper()
	each(t, func(b *bed) { b.task(b.t, func(x Executor) { test(b, x) }) })
}

// eachPair runs a test with a connection of each network and its peer, as a task of each
// driver. The connection is closed after it.
func eachPair(t *testing.T, test func(b *bed, x Executor, c Conn, peer net.Conn)) {
	t.Helper()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			eachTask(t, func(b *bed, x Executor) {
				c, peer := pair(b.t, x, network)
				defer func() { _ = c.Close() }()
				test(b, x, c, peer)
			})
		})
	}
}

// listen opens a listening socket of the standard library.
func listen(t testing.TB, network string) net.Listener {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	listening, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listening.Close() })
	return listening
}

// serve lets handler serve a new listening socket; it returns how to reach it.
func (b *bed) serve(t testing.TB, network string, handler Handler, options ListenOptions) func() net.Conn {
	t.Helper()
	listening := listen(t, network)
	closer, err := b.Listen(listening, handler, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closer.Close() })
	return func() net.Conn { return connect(t, listening) }
}

// connect dials a listening socket. It is called by tests and by their
// goroutines, where a failure to connect is a panic.
func connect(t testing.TB, listening net.Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial(listening.Addr().Network(), listening.Addr().String())
	if err != nil {
		t.Errorf("dial: %v", err)
		panic(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// pair returns the two ends of a connection: that of the executor whose task
// calls it, and that of the world outside.
func pair(t testing.TB, x Executor, network string) (Conn, net.Conn) {
	t.Helper()
	listening := listen(t, network)
	conn, err := x.Dial(context.Background(), network, listening.Addr().String(), time.Now().Add(time.Minute))
	if err != nil {
		t.Errorf("dial: %v", err)
		panic(err)
	}
	peer, err := listening.Accept()
	if err != nil {
		t.Errorf("accept: %v", err)
		panic(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	return conn, peer
}

// beside runs f as another task of x; the event says that it has returned.
func beside(x Executor, f func()) Event {
	done := x.NewEvent()
	x.Go(func() { defer done.Set(); f() })
	return done
}

// eventually waits for a condition; it may be called where nothing else waits.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(limit) {
			t.Errorf("in vain: %s", what)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// settle waits as a task for what others do soon.
func settle(t testing.TB, x Executor, what string, holds func() bool) {
	t.Helper()
	limit := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(limit) {
			t.Errorf("in vain: %s", what)
			return
		}
		_ = x.NewEvent().Wait(time.Now().Add(time.Millisecond))
	}
}

// echo answers what comes, and rests.
func echo(c Conn) (bool, time.Time) {
	var buffer [4096]byte
	n, err := c.Read(buffer[:])
	if err == nil {
		_, err = c.Write(buffer[:n])
	}
	return err == nil, time.Time{}
}

// exchange sends text and wants it back.
func exchange(t testing.TB, conn net.Conn, text string) bool {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Errorf("write: %v", err)
		return false
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Errorf("got %q, %v instead of %q", got, err, text)
		return false
	}
	return true
}

// noise is a stream of bytes that no other seed has.
func noise(seed byte, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), n)
}

// sameNoise tells whether r is that stream, to its end.
func sameNoise(t testing.TB, r io.Reader, seed byte, n int64) {
	t.Helper()
	want, got := make([]byte, 32<<10), make([]byte, 32<<10)
	source := noise(seed, n)
	for at := int64(0); ; {
		m, err := r.Read(got)
		if _, wantErr := io.ReadFull(source, want[:m]); wantErr != nil {
			t.Errorf("stream %d: more than %d bytes came", seed, n)
			return
		}
		if !bytes.Equal(got[:m], want[:m]) {
			t.Errorf("stream %d: other bytes after %d", seed, at)
			return
		}
		at += int64(m)
		if err != nil {
			if err != io.EOF || at != n {
				t.Errorf("stream %d: %v after %d of %d", seed, err, at, n)
			}
			return
		}
	}
}
