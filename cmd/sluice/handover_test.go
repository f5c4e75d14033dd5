package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"sluice/internal/gatewaytest"
)

var takenOver = regexp.MustCompile(`msg="a new process has taken over" pid=(\d+)`)

// ends signals a process that was handed the sockets, which must end well.
func ends(t *testing.T, fresh *os.Process, signal syscall.Signal) {
	t.Helper()
	if err := fresh.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if state, err := fresh.Wait(); err != nil || state.ExitCode() != 0 {
		t.Errorf("the process ended with %v, %v", state, err)
	}
}

// handOver hands the sockets over, and returns the new process; it ends with
// the test.
func handOver(t *testing.T, old *process) *os.Process {
	t.Helper()
	old.signal(syscall.SIGUSR2)
	return tookOver(t, old, 1)
}

// tookOver waits for the end of the nth hand-over since the first process, and
// returns the new one. All write to one log.
func tookOver(t *testing.T, first *process, n int) *os.Process {
	t.Helper()
	var matches [][]string
	gatewaytest.WaitFor(t, "a new process has taken over", func() bool {
		matches = takenOver.FindAllStringSubmatch(first.log(), -1)
		return len(matches) >= n
	})
	pid, err := strconv.Atoi(matches[n-1][1])
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fresh.Kill() }) // fails where it has ended
	return fresh
}

// echoing is an endpoint that echoes on upgraded connections, and answers everything else.
func echoing(t *testing.T) string {
	t.Helper()
	return gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		for {
			head, err := gatewaytest.ReadHead(in)
			if err != nil {
				return
			}
			if strings.Contains(strings.ToLower(head), "upgrade: echo") {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				_, _ = io.Copy(conn, in)
				return
			}
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
				return
			}
		}
	}).URL
}

// load asks for a URL over and over until it is told to stop, and tells of
// each request that failed.
type load struct {
	asked, failed atomic.Int64
	first         atomic.Pointer[string]
	stop          context.CancelFunc
	running       sync.WaitGroup
}

func startLoad(t *testing.T, web, socket string) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop}
	unix := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	for _, transport := range []*http.Transport{
		{}, {DisableKeepAlives: true}, {DialContext: unix}, {DialContext: unix, DisableKeepAlives: true},
	} {
		client := &http.Client{Transport: transport, Timeout: gatewaytest.Patience}
		l.running.Go(func() {
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				l.asked.Add(1)
				if fault := once(client, "http://"+web+"/api"); fault != "" {
					l.failed.Add(1)
					l.first.CompareAndSwap(nil, &fault)
				}
			}
		})
	}
	t.Cleanup(func() { stop(); l.running.Wait() })
	return l
}

func once(client *http.Client, url string) (fault string) {
	response, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != 200 || string(body) != "ok" {
		return fmt.Sprintf("status %d, %q, %v", response.StatusCode, body, err)
	}
	return ""
}

// more waits until so many further requests were made.
func (l *load) more(t *testing.T, count int64) {
	t.Helper()
	until := l.asked.Load() + count
	gatewaytest.WaitFor(t, "requests go on", func() bool { return l.asked.Load() >= until })
}

func TestHandOver(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "web.sock")
	write(t, dir, "sluice.yaml", fmt.Sprintf(`
listeners:
  web: {address: "127.0.0.1:0"}
  more: {address: "127.0.0.1:0"}
  local: {address: "unix:web.sock"}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
drain_timeout: 2s
routes:
  - {id: api, match: {path_prefix: /api}, upstream: %q}
`, echoing(t)))
	// The binary is replaced while it runs, as by an upgrade.
	installed := filepath.Join(dir, "sluice")
	install(t, installed)
	old := prepare(t, dir, "run")
	old.cmd.Path = installed
	old.begin()
	addresses := old.addresses()
	install(t, installed)
	tunnel, tunnelIn := dial(t, "tcp", addresses["web"])
	if _, err := io.WriteString(tunnel, "GET /api HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if head, err := gatewaytest.ReadHead(tunnelIn); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("no tunnel: %q, %v", head, err)
	}
	echo := func(text string) error {
		if _, err := io.WriteString(tunnel, text+"\n"); err != nil {
			return err
		}
		if got, err := tunnelIn.ReadString('\n'); err != nil || got != text+"\n" {
			return fmt.Errorf("got %q: %w", got, err)
		}
		return nil
	}
	if err := echo("before"); err != nil {
		t.Fatal(err)
	}
	requests := startLoad(t, addresses["web"], socket)
	requests.more(t, 50)

	fresh := handOver(t, old)
	if err := echo("after"); err != nil {
		t.Errorf("the tunnel of the old process: %v", err)
	}
	requests.more(t, 50)
	if err := echo(""); !old.running() && err == nil { // it lives as long as the old process
		t.Error("the tunnel lives on without the old process")
	}
	if code := old.exit(); code != 0 {
		t.Errorf("the old process ended with status %d", code)
	}
	if _, err := tunnelIn.ReadString('\n'); err == nil {
		t.Error("the tunnel outlives the drain time")
	}
	requests.more(t, 50)
	requests.stop()
	requests.running.Wait()
	if failed := requests.failed.Load(); failed > 0 {
		t.Errorf("%d of %d requests failed, the first with %s", failed, requests.asked.Load(), *requests.first.Load())
	}

	// All addresses are the same ones, though the system had chosen them.
	client := httpClient(t)
	for name, path := range map[string]string{"web": "/api", "more": "/api", "admin": "/_gateway/ready"} {
		if status, _ := gatewaytest.Fetch(t, client, "http://"+addresses[name]+path); status != 200 {
			t.Errorf("%s answers %d after the hand-over", name, status)
		}
	}
	conn, in := dial(t, "unix", socket)
	if status := ask(t, conn, in, "/api"); status != 200 {
		t.Errorf("the Unix socket answers %d", status)
	}

	// The new process is a gateway as any other: it drains, and takes its file away.
	ends(t, fresh, syscall.SIGTERM)
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the Unix socket is left behind: %v", err)
	}
}

// install puts a copy of the binary in place of what is there.
func install(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(binary())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", content, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestHandOverThatFails(t *testing.T) {
	dir := t.TempDir()
	config := strings.Replace(small, "listeners: {", `listeners: {local: {address: "unix:web.sock"}, `, 1)
	write(t, dir, "sluice.yaml", config)
	old := start(t, dir, "run")
	addresses, client := old.addresses(), httpClient(t)
	write(t, dir, "sluice.yaml", config+"nonsense: 1\n")
	old.logged("configuration refused", 1)
	for n := 1; n <= 2; n++ {
		old.signal(syscall.SIGUSR2)
		old.logged(`msg="the sockets stay here" error="the new process ended before it served: exit status 1"`, n)
		for range 3 {
			if status, body := gatewaytest.Fetch(t, client, "http://"+addresses["web"]+"/ping"); status != 200 || body != "pong" {
				t.Errorf("the old process answers %d %q", status, body)
			}
			client.CloseIdleConnections()
		}
	}
	if text := "sluice.yaml:5:1: unknown key \"nonsense\"\n"; !strings.Contains(old.log(), "\n"+text) {
		t.Error("the new process does not say why")
	}
	if status, _ := gatewaytest.Fetch(t, client, "http://"+addresses["admin"]+"/_gateway/ready"); status != 200 {
		t.Errorf("ready is %d", status)
	}
	client.CloseIdleConnections()
	write(t, dir, "sluice.yaml", config+"response_time_header: true\n")
	old.logged("revision=2", 1)

	// Once it is mended, so does the hand-over; and the one after the next.
	fresh := handOver(t, old)
	if code := old.exit(); code != 0 {
		t.Errorf("the old process ended with status %d", code)
	}
	if status, body := gatewaytest.Fetch(t, client, "http://"+addresses["web"]+"/ping"); status != 200 || body != "pong" {
		t.Errorf("the new process answers %d %q", status, body)
	}
	ends(t, fresh, syscall.SIGINT)
}

// TestEndAfterAHandOverThatFailed shows that nothing is left of a try: the
// gateway ends as if it had not been.
func TestEndAfterAHandOverThatFailed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "sluice.yaml", small)
	old := start(t, dir, "run")
	web := old.addresses()["web"]
	write(t, dir, "sluice.yaml", "")
	old.signal(syscall.SIGUSR2)
	old.logged("the sockets stay here", 1)
	for range 3 {
		conn, in := dial(t, "tcp", web)
		if status := ask(t, conn, in, "/ping"); status != 200 {
			t.Errorf("status %d", status)
		}
		conn.Close()
	}
	old.signal(syscall.SIGTERM)
	if code := old.exit(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}
