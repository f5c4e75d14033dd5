package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
	"sluice/internal/waittest"
)

// dial connects, and bounds what is then read.
func dial(t *testing.T, network, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(gatewaytest.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// ask sends a GET on a connection and returns the status.
func ask(t *testing.T, conn net.Conn, in *bufio.Reader, path string) int {
	t.Helper()
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

func TestReloadBySignal(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "sluice.yaml", small)
	gateway := start(t, dir, "run", "--log-level", "debug")
	gateway.addresses()
	gateway.signal(syscall.SIGHUP)
	gateway.logged("the documents did not change", 1)

	// What failed for a reason outside of the documents is tried again, though
	// no file changed.
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	address := holder.Addr().String()
	write(t, dir, "sluice.yaml", strings.Replace(small, "listeners: {", fmt.Sprintf("listeners: {more: {address: %q}, ", address), 1))
	gateway.logged(`msg="configuration refused" problem="sluice.yaml:1:29: cannot listen on `+address+": address already in use (it is tried again every 2s)\"", 1)
	holder.Close()
	gateway.signal(syscall.SIGHUP)
	gateway.logged("revision=2", 1)
	if status, body := gatewaytest.Fetch(t, httpClient(t), "http://"+address+"/ping"); status != 200 || body != "pong" {
		t.Errorf("the new listener answers %d %q", status, body)
	}

	// A file that a refused document names is watched as well: no signal is needed.
	write(t, dir, "sluice.yaml", strings.Replace(small, "body: pong", "body: '${file:body.txt}'", 1))
	gateway.logged("body.txt", 1)
	write(t, dir, "body.txt", "from a file\n")
	gateway.logged("revision=3", 1)
}

func TestReopenLogBySignal(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "sluice.yaml", small+"access_log: {output: access.log, format: common}\n")
	gateway := start(t, dir, "run")
	web, client := "http://"+gateway.addresses()["web"], httpClient(t)
	lines := func(name string) int {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Count(string(content), "GET /ping")
	}
	gatewaytest.Fetch(t, client, web+"/ping")
	gatewaytest.WaitFor(t, "a line is written", func() bool { return lines("access.log") == 1 })
	if err := os.Rename(filepath.Join(dir, "access.log"), filepath.Join(dir, "access.log.1")); err != nil {
		t.Fatal(err)
	}
	gatewaytest.Fetch(t, client, web+"/ping")
	gatewaytest.WaitFor(t, "the moved file is written on", func() bool { return lines("access.log.1") == 2 })
	gateway.signal(syscall.SIGUSR1)
	gatewaytest.WaitFor(t, "the file is there again", func() bool {
		_, err := os.Stat(filepath.Join(dir, "access.log"))
		return err == nil
	})
	gatewaytest.Fetch(t, client, web+"/ping")
	gateway.signal(os.Interrupt)
	if code := gateway.exit(); code != 0 || lines("access.log") != 1 || lines("access.log.1") != 2 {
		t.Errorf("exit status %d, %d lines in the new file, %d in the old", code, lines("access.log"), lines("access.log.1"))
	}
}

func TestDrain(t *testing.T) {
	url, arrived, gate := gatewaytest.NewGated(t)
	dir := t.TempDir()
	write(t, dir, "sluice.yaml", small+fmt.Sprintf("  - {id: slow, match: {path: /slow}, upstream: %q}\n", url))
	gateway := start(t, dir, "run")
	addresses, client := gateway.addresses(), httpClient(t)
	idle, idleIn := dial(t, "tcp", addresses["web"])
	if status := ask(t, idle, idleIn, "/ping"); status != 200 {
		t.Fatalf("status %d", status)
	}
	answered := make(chan string, 1)
	go func() {
		response, err := client.Get("http://" + addresses["web"] + "/slow")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		answered <- fmt.Sprint(response.StatusCode, " ", string(body), " ", response.Close, " ", err)
	}()
	waittest.Receive(t, "the request is under way", arrived)
	if status, _ := gatewaytest.Fetch(t, client, "http://"+addresses["admin"]+"/_gateway/ready"); status != 200 {
		t.Errorf("ready is %d before draining", status)
	}

	gateway.signal(syscall.SIGTERM)
	if _, err := idleIn.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection reads %v, want its end", err)
	}
	if conn, err := net.Dial("tcp", addresses["web"]); err == nil {
		conn.Close()
		t.Error("a new connection is accepted")
	}
	if status, body := gatewaytest.Fetch(t, client, "http://"+addresses["admin"]+"/_gateway/ready"); status != 503 || !strings.Contains(body, `"error":"not_ready"`) {
		t.Errorf("ready is %d %s while draining", status, body)
	}
	if status, _ := gatewaytest.Fetch(t, client, "http://"+addresses["admin"]+"/_gateway/health"); status != 200 {
		t.Errorf("health is %d while draining", status)
	}
	if !gateway.running() {
		t.Fatal("the gateway did not wait for the exchange")
	}
	close(gate)
	if got := <-answered; got != "200 late true <nil>" {
		t.Errorf("the exchange under way ended with %s", got)
	}
	if code := gateway.exit(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if !strings.Contains(gateway.log(), "msg=stopped") || strings.Contains(gateway.log(), "were cut") {
		t.Error("the log does not tell of an orderly end")
	}
	if n := strings.Count(gateway.out(), `"path":"/slow","protocol":"HTTP/1.1","status":200`); n != 1 {
		t.Errorf("the last exchange has %d lines in the access log", n)
	}
}

func TestDrainDeadline(t *testing.T) {
	url, arrived, _ := gatewaytest.NewGated(t)
	dir := t.TempDir()
	write(t, dir, "sluice.yaml", small+fmt.Sprintf("  - {id: slow, match: {path: /slow}, upstream: %q}\ndrain_timeout: 300ms\n", url))
	gateway := start(t, dir, "run")
	web := gateway.addresses()["web"]
	conn, in := dial(t, "tcp", web)
	if _, err := io.WriteString(conn, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, "the request is under way", arrived)
	began := time.Now()
	gateway.signal(syscall.SIGTERM)
	if response, err := http.ReadResponse(in, nil); err == nil {
		response.Body.Close()
		if response.StatusCode < 500 {
			t.Errorf("the cut exchange has status %d", response.StatusCode)
		}
	}
	if code := gateway.exit(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("the gateway ended after %v", took)
	}
	if !strings.Contains(gateway.log(), "exchanges were cut at the end of drain_timeout") {
		t.Error("the log does not tell of the cut")
	}
	if n := strings.Count(gateway.out(), `"path":"/slow"`); n != 1 {
		t.Errorf("the cut exchange has %d lines in the access log", n)
	}
}

// TestSecondSignal ends a gateway in about a second, with nothing untold: what
// it cuts has its line in the access log.
func TestSecondSignal(t *testing.T) {
	url, arrived, _ := gatewaytest.NewGated(t)
	dir := t.TempDir()
	write(t, dir, "sluice.yaml", small+fmt.Sprintf("  - {id: slow, match: {path: /slow}, upstream: %q}\ndrain_timeout: 10m\n", url))
	gateway := start(t, dir, "run")
	conn, in := dial(t, "tcp", gateway.addresses()["web"])
	if _, err := io.WriteString(conn, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, "the request is under way", arrived)
	gateway.signal(syscall.SIGTERM)
	gateway.logged("msg=draining", 1)
	began := time.Now()
	gateway.signal(os.Interrupt)
	if head, err := gatewaytest.ReadHead(in); err != nil || !strings.HasPrefix(head, "HTTP/1.1 503 ") || !strings.Contains(head, "\r\nConnection: close\r\n") {
		t.Errorf("the exchange ended with %q, %v", head, err)
	}
	if code := gateway.exit(); code != exitFailed {
		t.Errorf("the gateway ended by %v", gateway.cmd.ProcessState)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := strings.Count(gateway.out(), `"path":"/slow","protocol":"HTTP/1.1","status":503`); n != 1 {
		t.Errorf("the cut exchange has %d lines in the access log:\n%s", n, gateway.out())
	}
	if text := "sluice: told to end at once, the gateway cut what was under way\n"; !strings.HasSuffix(gateway.log(), text) {
		t.Error("nobody says why")
	}
}

// TestSecondSignalWithNothingToCut: a second signal with nothing left to cut is no
// failure.
func TestSecondSignalWithNothingToCut(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "sluice.yaml", small)
	gateway := start(t, dir, "run")
	conn, in := dial(t, "tcp", gateway.addresses()["web"])
	ask(t, conn, in, "/ping")
	silent, _ := dial(t, "tcp", gateway.addresses()["web"]) // gets a moment
	gateway.signal(syscall.SIGTERM)
	gateway.logged("msg=draining", 1)
	_ = gateway.cmd.Process.Signal(syscall.SIGTERM) // fails where it has ended
	if code := gateway.exit(); code != 0 {
		t.Errorf("the gateway ended by %v", gateway.cmd.ProcessState)
	}
	silent.Close()
}

func TestReaderOfTheLogLeaves(t *testing.T) {
	for _, name := range []string{"run", "demo"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "sluice.yaml", small)
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			gateway := prepare(t, dir, name)
			gateway.cmd.Stdout = writer
			gateway.begin()
			writer.Close()
			web := ""
			if name == "run" {
				web = gateway.addresses()["web"]
			} else {
				text := bufio.NewReader(reader)
				for web == "" {
					line, err := text.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if found := demoURL.FindStringSubmatch(line); found != nil {
						web = "127.0.0.1:" + found[1]
					}
				}
			}
			reader.Close()
			client := httpClient(t)
			gatewaytest.WaitFor(t, "the log tells of lost lines", func() bool {
				if status, _ := gatewaytest.Fetch(t, client, "http://"+web+"/ping"); status != 200 {
					t.Fatalf("status %d", status)
				}
				return strings.Contains(gateway.log(), "access log not written")
			})
			gateway.signal(os.Interrupt)
			if code := gateway.exit(); code != 0 {
				t.Errorf("exit status %d", code)
			}
		})
	}
}
