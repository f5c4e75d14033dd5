//go:build unix

package netloop

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

const exhaustedChild = "NETLOOP_EXHAUSTED"

// TestExhausted takes all descriptors of a child process. Who comes then is
// told; once others leave, all is well again.
func TestExhausted(t *testing.T) {
	inChildren(t, exhaustedChild, exhaustedServer, func(t *testing.T, address string, _ io.Writer, _ *bufio.Reader) {
		t.Helper()
		var open []net.Conn
		told := 0
		for len(open) < 80 && told < 2 {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
			_, _ = conn.Write([]byte("x"))
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			got, one := []byte(nil), make([]byte, 16)
			n, err := conn.Read(one)
			if got = append(got, one[:n]...); string(got) != "x" {
				if string(got) != "no room" && !errors.Is(err, syscall.ECONNRESET) {
					t.Fatalf("client %d is told %q, %v", len(open), got, err)
				}
				told++
			}
		}
		if told < 2 {
			t.Errorf("%d clients were told after %d", told, len(open))
		}
		for _, conn := range open {
			_ = conn.Close()
		}
		eventually(t, "it takes connections again", func() bool {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return false
			}
			defer func() { _ = conn.Close() }()
			_, _ = conn.Write([]byte("x"))
			got, err := io.ReadFull(conn, make([]byte, 1))
			return got == 1 && err == nil
		})
	})
}

func exhaustedServer(t *testing.T, k kind) {
	t.Helper()
	driver, err := k.start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Stop()
	listening := listen(t, "tcp")
	if _, err := driver.Listen(listening, echo, ListenOptions{Exhausted: func() []byte { return []byte("no room") }}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 40, Max: 40}); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString(listening.Addr().String() + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
