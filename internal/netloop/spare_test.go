//go:build unix

package netloop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

const (
	spareChild = "NETLOOP_SPARE"
	spareLimit = 160
)

// TestConnectionsSpareDescriptors fills a child process with connections: clients
// are told that there is no room while files can be opened still.
func TestConnectionsSpareDescriptors(t *testing.T) {
	inChildren(t, spareChild, spareServer, func(t *testing.T, address string, ask io.Writer, lines *bufio.Reader) {
		t.Helper()
		told := 0
		for clients := 0; told < 20; clients++ {
			if clients > spareLimit+20 {
				t.Fatalf("%d clients of %d were told", told, clients)
			}
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			_, _ = conn.Write([]byte("x"))
			got := make([]byte, len("no room"))
			n, err := io.ReadAtLeast(conn, got, 1)
			switch {
			case errors.Is(err, syscall.ECONNRESET): // it had written meanwhile
				told++
			case err != nil:
				t.Fatalf("client %d: %v", clients, err)
			case string(got[:n]) != "x":
				told++
			}
		}
		_, _ = io.WriteString(ask, "look\n")
		if report, _ := lines.ReadString('\n'); report != "files: true, dialing: true, pipes: true\n" {
			t.Errorf("the child reports %q", report)
		}
	})
}

func spareServer(t *testing.T, k kind) {
	t.Helper()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: spareLimit, Max: spareLimit}); err != nil {
		t.Fatal(err)
	}
	driver, err := k.start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Stop()
	listening := listen(t, "tcp")
	if _, err := driver.Listen(listening, echo, ListenOptions{Exhausted: func() []byte { return []byte("no room") }}); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString(listening.Addr().String() + "\n")
	stdin := bufio.NewReader(os.Stdin)
	if _, err := stdin.ReadString('\n'); err != nil {
		return
	}
	files := true
	for range spareLimit/spareShare - 2 {
		file, err := os.Open(os.DevNull)
		files = files && err == nil
		t.Cleanup(func() { _ = file.Close() })
	}
	x := driver.Executors()[0]
	done := make(chan string)
	x.Post(func() {
		_, dialing := x.Dial(t.Context(), "tcp", listening.Addr().String(), time.Time{})
		_, piping := x.NewPipe()
		done <- fmt.Sprintf("dialing: %v, pipes: %v", errors.Is(dialing, syscall.EMFILE), errors.Is(piping, errors.ErrUnsupported))
	})
	fmt.Printf("files: %v, %s\n", files, <-done)
	_, _ = stdin.ReadString('\n')
}
