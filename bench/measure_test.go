//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// compiled makes the programs that these tests run, once.
func compiled(t *testing.T) programs {
	t.Helper()
	directory := t.TempDir()
	made := func(name string) string { return filepath.Join(directory, name) }
	p := programs{endpoint: made("endpoint"), load: made("load"), relay: made("relay"), reverseproxy: made("reverseproxy")}
	for _, command := range [][]string{
		{"cc", "-O2", "-Wall", "-Werror", "-o", p.endpoint, "endpoint/endpoint.c"},
		{"cc", "-O2", "-Wall", "-Werror", "-o", p.load, "load/load.c", "-lm", "-lssl", "-lcrypto"},
		{"go", "build", "-o", p.relay, "./relay"},
		{"go", "build", "-o", p.reverseproxy, "./reverseproxy"},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	return p
}

func newBench(t *testing.T, p programs) *bench {
	t.Helper()
	directory := t.TempDir()
	shown, err := makeCertificate(directory)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{
		programs: p, client: client{program: p.load, h2load: "h2load"}, certificate: shown, verifier: newVerifier(shown.roots), ports: &ports{},
		directory: directory, descriptors: 1024, duration: 150 * time.Millisecond, warm: 10 * time.Millisecond, speech: speech{io.Discard},
		rates: map[string]float64{}, looked: map[string]bool{}, results: &results{Fields: map[string]fields{}},
	}
}

// TestLoads puts every load on the endpoint, through a proxy that reads HTTP and
// one that does not. It times nothing.
func TestLoads(t *testing.T) {
	p := compiled(t)
	ctx := t.Context()
	b := newBench(t, p)
	var err error
	if b.endpoint, err = b.ports.address(ctx); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(b.endpoint, ":")
	endpoint, err := b.start(ctx, "endpoint", []string{p.endpoint, port}, b.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.stop()
	for _, c := range loads() {
		if err := b.verifier.verify(ctx, b.endpoint, c.inClear(), true); err != nil {
			t.Fatalf("the endpoint: %v", err)
		}
		c.connections = min(c.connections, 16)
		b.rates[c.name] = 100
		for _, p := range proxies() {
			if !slices.Contains([]string{"relay", "reverseproxy", "direct"}, p.name) {
				continue
			}
			s, err := b.sample(ctx, c, p, 0)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, p.name, err)
				continue
			}
			switch {
			case s == nil:
				if c.in(p) {
					t.Errorf("%s, %s: nothing was measured", c.name, p.name)
				}
			case c.idle:
				if s.Connections != 16 || s.Resident <= 0 {
					t.Errorf("%s, %s: %s", c.name, p.name, s)
				}
			case c.rated() != (s.Half != nil) || s.Half != nil && s.Half.Scheduled == 0:
				t.Errorf("%s, %s: half load %+v", c.name, p.name, s.Half)
			case c.resumed && s.Saturated.Resumed == 0 || !c.resumed && s.Saturated.Resumed > 0:
				t.Errorf("%s, %s: %d sessions were resumed", c.name, p.name, s.Saturated.Resumed)
			case s.Saturated.Requests == 0 || p.command != nil && (s.Saturated.CPU <= 0 || s.Resident <= 0):
				t.Errorf("%s, %s: %+v, %+v, %d bytes", c.name, p.name, s.Saturated, s.Half, s.Resident)
			}
		}
	}
	if got := b.results.Fields["reverseproxy"].Request; !slices.Equal(got, []string{"Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "X-Request-Id"}) {
		t.Errorf("reverseproxy adds %v", got)
	}
}

// TestWrong shows that no wrong answer passes for a right one, neither before
// the load nor under it.
func TestWrong(t *testing.T) {
	program := compiledLoad(t)
	right := strings.Repeat("a", 256)
	l := load{connections: 2, path: "/", length: 256}
	for _, test := range []struct {
		name   string
		answer func(n int) string // the n-th on a connection, from 0; empty: it closes
		under  string             // what the load says; empty: it cannot tell
		before string             // what the look before the load says; empty: the first answer is right
	}{
		{"status", func(int) string { return message("502 Bad Gateway", right) }, "HTTP/1.1 502", "502 Bad Gateway"},
		{"status, later", func(n int) string { return message([]string{"200 OK", "503 Unavailable"}[min(n, 20)/20], right) }, "HTTP/1.1 503", ""},
		{"length", func(int) string { return message("200 OK", right[1:]) }, "an answer of another length", "255 bytes instead of 256"},
		{"too much", func(int) string { return message("200 OK", right) + "x" }, "an answer of another length", ""},
		{"body", func(int) string { return message("200 OK", strings.ToUpper(right)) }, "", "another body"},
		{"closed", func(n int) string { return []string{message("200 OK", right), ""}[min(n, 1)] }, "closed before the answer", ""},
		{"cut short", func(int) string { return message("200 OK", right)[:200] }, "closed within the answer", "unexpected EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := scripted(t, test.answer)
			v := newVerifier(nil)
			v.right["/"] = sha256.Sum256([]byte(right))
			holds(t, "before", v.verify(t.Context(), address, l, false), test.before)
			_, err := client{program: program}.put(t.Context(), address, l, 0, 0, 100*time.Millisecond, nil, nil)
			holds(t, "under load", err, test.under)
			_, err = client{program: program}.put(t.Context(), address, l, 1000, 0, 200*time.Millisecond, nil, nil)
			holds(t, "at a rate", err, test.under)
		})
	}
}

func compiledLoad(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "load")
	if out, err := exec.CommandContext(t.Context(), "cc", "-O2", "-o", program, "load/load.c", "-lm", "-lssl", "-lcrypto").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func holds(t *testing.T, when string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", when, err, want)
	}
}

func message(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// scripted serves answers that no server would give.
func scripted(t *testing.T, answer func(n int) string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	serve := func(c net.Conn) {
		defer c.Close()
		reader := bufio.NewReader(c)
		for n := 0; ; n++ {
			if _, err := http.ReadRequest(reader); err != nil {
				return
			}
			text := answer(n)
			if text == "" {
				return
			}
			if _, err := io.WriteString(c, text); err != nil || len(text) < 256 {
				return
			}
		}
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return listener.Addr().String()
}

// TestLate shows that a rate counts latency from when a request was due: with
// one connection and 20 ms for each answer, most of 200 requests a second wait
// for those before them.
func TestLate(t *testing.T) {
	program := compiledLoad(t)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(20 * time.Millisecond)
		_, _ = io.WriteString(w, strings.Repeat("a", 256))
	}))
	defer slow.Close()
	o, err := client{program: program}.put(t.Context(), slow.Listener.Addr().String(), load{connections: 1, path: "/", length: 256}, 200, 0, 500*time.Millisecond, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.kept() || o.Unfinished == 0 || o.P50 < int64(60*time.Millisecond) {
		t.Errorf("%d of %d due, %d unfinished, p50 %v", o.Requests, o.Scheduled, o.Unfinished, time.Duration(o.P50))
	}
}

// TestFields holds that a proxy which sets less than the others is found out.
func TestFields(t *testing.T) {
	for said, want := range map[string]string{
		"Via: 1.1 x\r\n": "received no X-Forwarded-For",
		"Via: 1.1 x\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: x\r\nX-Forwarded-Proto: https\r\nX-Real-IP: x\r\nX-Request-ID: x\r\n": "X-Forwarded-Proto: https instead of http",
	} {
		lazy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Via", "1.1 x")
			w.Header().Set("X-Request-ID", "x")
			fmt.Fprintf(w, "GET /head HTTP/1.1\r\nHost: %s\r\n%s\r\n", r.Host, said)
		}))
		_, _, err := newVerifier(nil).fields(t.Context(), lazy.Listener.Addr().String(), load{})
		lazy.Close()
		holds(t, said, err, want)
	}
}

func TestStop(t *testing.T) {
	// A shell that does not listen to SIGTERM, and its child.
	p, err := start(context.Background(), t.TempDir(), []string{"/bin/sh", "-c", "trap '' TERM; echo begun; sleep 1000 & wait; wait"})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := p.family(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.family(canceled(t), 3); !errors.Is(err, context.Canceled) {
		t.Errorf("a family of three: %v", err)
	}
	if size, err := resident(ids); err != nil || size <= 0 {
		t.Errorf("resident %d, %v", size, err)
	}
	if err := p.waitReady(canceled(t), "127.0.0.1:1"); err == nil {
		t.Error("ready, without a listener")
	}
	p.stop()
	if !strings.Contains(p.printed(), "begun") {
		t.Errorf("printed %q", p.printed())
	}
	if err := p.waitReady(t.Context(), "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "ended: begun") {
		t.Errorf("ready, though it ended: %v", err)
	}
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
