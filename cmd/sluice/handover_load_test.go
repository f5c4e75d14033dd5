package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

var bornLine = regexp.MustCompile(`(?m)^process_start_time_seconds .*`)

// startPosts is startLoad with requests that no client repeats by itself, on so
// many connections that are kept, and on as many new ones again.
func startPosts(t *testing.T, url string, clients int) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop}
	for i := range 2 * clients {
		transport := &http.Transport{DisableKeepAlives: i%2 == 0}
		client := &http.Client{Transport: transport, Timeout: gatewaytest.Patience}
		l.running.Go(func() {
			defer transport.CloseIdleConnections()
			for n := 0; ctx.Err() == nil; n++ {
				l.asked.Add(1)
				if fault := post(client, url); fault != "" {
					l.failed.Add(1)
					l.first.CompareAndSwap(nil, &fault)
				}
				if i%4 == 1 { // the connection is idle for a while
					<-time.After(time.Duration(n%20) * time.Millisecond)
				}
			}
		})
	}
	t.Cleanup(func() { stop(); l.running.Wait() })
	return l
}

func post(client *http.Client, url string) (fault string) {
	response, err := client.Post(url, "text/plain", strings.NewReader("x"))
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != 200 || string(body) != "pong" {
		return fmt.Sprintf("status %d, %q, %v", response.StatusCode, body, err)
	}
	return ""
}

// TestHandOversLoseNothing hands over three times under load: from process to
// process, on kept connections and on new ones, no request fails.
func TestHandOversLoseNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "sluice.yaml", small+"drain_timeout: 5s\n")
	old := start(t, dir, "run")
	addresses := old.addresses()
	url := "http://" + addresses["web"] + "/ping"
	silent, silentIn := dial(t, "tcp", addresses["web"])
	idle, idleIn := dial(t, "tcp", addresses["web"])
	if status := ask(t, idle, idleIn, "/ping"); status != 200 {
		t.Fatalf("status %d", status)
	}
	requests := startPosts(t, url, 8)
	admin := httpClient(t)
	serving := old.cmd.Process
	for n := 1; n <= 3; n++ {
		requests.more(t, 100)
		if err := serving.Signal(syscall.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		before := serving
		serving = tookOver(t, old, n)
		requests.more(t, 100)
		for range 5 { // whichever process answers
			if status, body := gatewaytest.Fetch(t, admin, "http://"+addresses["admin"]+"/_gateway/ready"); status != 200 {
				t.Errorf("ready is %d %s after a hand-over", status, body)
			}
		}
		if n > 1 {
			if state, err := before.Wait(); err != nil || state.ExitCode() != 0 {
				t.Errorf("process %d ended with %v, %v", n, state, err)
			}
			continue
		}
		// Connections that were open before get one more answer.
		for name, conn := range map[string]net.Conn{"a silent": silent, "an idle": idle} {
			in := silentIn
			if conn == idle {
				in = idleIn
			}
			if _, err := io.WriteString(conn, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s connection: %v", name, err)
			}
			if body, err := io.ReadAll(response.Body); err != nil || string(body) != "pong" || !response.Close {
				t.Errorf("%s connection: %q, %v, closes: %v", name, body, err, response.Close)
			}
			response.Body.Close()
		}
		if code := old.exit(); code != 0 {
			t.Errorf("the first process ended with status %d", code)
		}
	}
	requests.stop()
	requests.running.Wait()
	if failed := requests.failed.Load(); failed > 0 {
		t.Errorf("%d of %d requests failed, the first with %s", failed, requests.asked.Load(), *requests.first.Load())
	}
	if strings.Contains(old.log(), "were cut") {
		t.Error("something was cut")
	}
	ends(t, serving, syscall.SIGTERM)
}

// TestSignalsWhileYielding: after a hand-over the new process alone takes
// connections. SIGTERM closes idle ones at once; another SIGUSR2 does nothing.
func TestSignalsWhileYielding(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "sluice.yaml", small+"drain_timeout: 10m\n")
	old := start(t, dir, "run")
	addresses := old.addresses()
	conn, in := dial(t, "tcp", addresses["web"])
	ask(t, conn, in, "/ping")
	kept, keptIn := dial(t, "tcp", addresses["admin"])
	ask(t, kept, keptIn, "/_gateway/ready")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: gatewaytest.Patience}
	born := func() string {
		_, metrics := gatewaytest.Fetch(t, client, "http://"+addresses["admin"]+"/metrics")
		return bornLine.FindString(metrics)
	}
	before := born()
	fresh := handOver(t, old)
	gatewaytest.WaitFor(t, "the old process yields", func() bool { return strings.Contains(old.log(), "msg=yielding") })
	for range 10 {
		if now := born(); now == before || now == "" {
			t.Fatalf("the old process answers: %s", now)
		}
	}
	if status := ask(t, kept, keptIn, "/_gateway/ready"); status != 200 {
		t.Errorf("a kept connection is told ready %d", status)
	}
	if _, err := keptIn.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("and ends with %v", err)
	}
	old.signal(syscall.SIGUSR2)
	old.logged(`msg="the sockets stay here" error="the gateway ends"`, 1)
	if !old.running() {
		t.Fatal("it does not wait for the idle connection")
	}
	old.signal(syscall.SIGTERM)
	if code := old.exit(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection ended with %v", err)
	}
	ends(t, fresh, syscall.SIGTERM)
}

// TestSocketFilesAfterAHandOverThatFailed: they are there while the gateway
// serves, and gone after its end.
func TestSocketFilesAfterAHandOverThatFailed(t *testing.T) {
	dir := gatewaytest.ShortDir(t)
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	config := "listeners: {local: {address: \"unix:web.sock\"}%s}\nadmin: {address: \"unix:admin.sock\"}\nroutes: [{match: {path: /ping}, respond: {body: pong}}]\n"
	write(t, dir, "sluice.yaml", fmt.Sprintf(config, ""))
	old := start(t, dir, "run")
	old.addresses()
	// The new process has the sockets before it fails.
	write(t, dir, "sluice.yaml", fmt.Sprintf(config, fmt.Sprintf(", taken: {address: %q}", holder.Addr())))
	old.logged("configuration refused", 1)
	old.signal(syscall.SIGUSR2)
	old.logged("the sockets stay here", 1)
	for name, path := range map[string]string{"web.sock": "/ping", "admin.sock": "/_gateway/ready"} {
		conn, in := dial(t, "unix", filepath.Join(dir, name))
		if status := ask(t, conn, in, path); status != 200 {
			t.Errorf("%s answers %d", name, status)
		}
		conn.Close()
	}
	old.signal(syscall.SIGTERM)
	if code := old.exit(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	for _, name := range []string{"web.sock", "admin.sock"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", name, err)
		}
	}
}
