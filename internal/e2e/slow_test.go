package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/gatewaytest"
)

const (
	slowSenders    = 1_000 // of each sort
	silentClients  = 50
	slowHeader     = 3 * time.Second // read_header
	slowPause      = time.Second
	slowInTime     = 15 * time.Second    // a body may be late for some seconds first
	promptAnswer   = time.Second         // what a well-behaved client may wait on a machine with nothing else to do, but for one in a hundred
	latestAnswer   = 5 * time.Second / 2 // what it may wait on any: less than whoever waits for a slow sender does
	slowHTTPLength = 40                  // seconds that slowhttptest would go on
)

// slowConfig is of a gateway whose endpoint takes bodies, but for its admin
// block.
func slowConfig(t *testing.T) string {
	t.Helper()
	url := gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // cut, as it should be
		}
		_, _ = io.WriteString(w, "answered")
	}))
	return fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0", timeouts: {read_header: %v, idle: 60s, min_body_rate: 1000B/s}}}
upstreams: {up: {endpoints: [%q], timeouts: {connect: 30s}}}
routes: [{id: all, match: {path_prefix: /}, upstream: up}]
`, slowHeader, url)
}

// prompt is a well-behaved client, which asks all the time and keeps how long
// the answers took.
type prompt struct {
	t       *testing.T
	url     string
	client  *http.Client
	stop    context.CancelFunc
	running sync.WaitGroup
	took    []time.Duration
}

// newPrompt begins to ask, every second time on a new connection.
func newPrompt(t *testing.T, url string) *prompt {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &prompt{t: t, url: url, client: &http.Client{Transport: &http.Transport{}, Timeout: gatewaytest.Patience}, stop: stop}
	p.running.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			p.ask(n%2 == 0)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { p.end() })
	return p
}

func (p *prompt) ask(anew bool) {
	request, err := http.NewRequest(http.MethodPost, p.url+"/prompt", strings.NewReader("a short body"))
	if err != nil {
		p.t.Error(err)
		return
	}
	request.Close = anew
	began := time.Now()
	response, err := p.client.Do(request)
	if err != nil {
		p.t.Errorf("a well-behaved client is not served: %v", err)
		return
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || string(body) != "answered" {
		p.t.Errorf("a well-behaved client got status %d %q, %v", response.StatusCode, body, err)
	}
	p.took = append(p.took, time.Since(began))
}

// end stops the asking and returns how long the answers took, shortest first.
func (p *prompt) end() []time.Duration {
	p.stop()
	p.running.Wait()
	p.client.CloseIdleConnections()
	slices.Sort(p.took)
	return p.took
}

// quantile is what a share of sorted times stay under.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// wantPrompt checks that nobody waited for slow senders. How long a busy machine
// takes by itself is not the gateway's fault: there it counts that no answer but
// one in a hundred took as long as a slow sender may take, who is what would be
// waited for.
func wantPrompt(t *testing.T, took []time.Duration) {
	t.Helper()
	most := latestAnswer
	if *long {
		most = promptAnswer
	}
	if len(took) == 0 {
		t.Error("no well-behaved client was served")
	} else if p99 := quantile(took, 0.99); p99 > most {
		t.Errorf("a well-behaved client waited %v at p99, of %d, and %v at most", p99, len(took), took[len(took)-1])
	}
}

// slowSender is a client that sends a byte from time to time.
type slowSender struct {
	begins string // what it sends first
	before bool   // it has had an answer on the connection
	next   string // what it sends from time to time; nothing: it is silent
}

// run sends until the gateway closes the connection, and returns what came and
// how long that took. It calls begun when the sending has begun.
func (s slowSender) run(address string, begun func()) (answer []byte, took time.Duration, err error) {
	begun = sync.OnceFunc(begun)
	defer begun()
	began := time.Now()
	conn, err := net.DialTimeout("tcp", address, gatewaytest.Patience)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	if s.before {
		if _, err := io.WriteString(conn, "POST /before HTTP/1.1\r\nHost: x.test\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return nil, 0, err
		}
		if err := answered(conn, "answered"); err != nil {
			return nil, 0, err
		}
	}
	if _, err := io.WriteString(conn, s.begins); err != nil {
		return nil, 0, err
	}
	begun()
	for buffer := make([]byte, 4<<10); time.Since(began) < gatewaytest.Patience; {
		if err := conn.SetReadDeadline(time.Now().Add(slowPause)); err != nil {
			return answer, time.Since(began), err
		}
		n, err := in.Read(buffer)
		answer = append(answer, buffer[:n]...)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if _, err := io.WriteString(conn, s.next); err != nil && !ended(err) {
				return answer, time.Since(began), err
			}
		case err != nil && ended(err):
			return answer, time.Since(began), nil
		case err != nil:
			return answer, time.Since(began), err
		}
	}
	return answer, time.Since(began), errors.New("the connection stays open")
}

// TestSlowSenders has many clients send their head or their body slowly. They
// are answered 408 and closed in time, and nobody else waits for them.
func TestSlowSenders(t *testing.T) {
	needFiles(t, 8*slowSenders)
	gw := gatewaytest.Start(t, "admin: {address: \"127.0.0.1:0\"}\n"+slowConfig(t))
	calm := newPrompt(t, gw.URL("web"))
	gatewaytest.WaitFor(t, "a second has passed", func() bool { return gw.Metric("gateway_requests_total", "method", "POST") >= 50 })
	usual := calm.end()

	meanwhile := newPrompt(t, gw.URL("web"))
	var running sync.WaitGroup
	var soonest, latest atomic.Int64
	var refused atomic.Int64
	soonest.Store(int64(time.Hour))
	begin := make(chan struct{}, 20) // at once, so that it is not the beginning that is measured
	send := func(s slowSender, atLeast time.Duration, want string) {
		begin <- struct{}{}
		running.Go(func() {
			answer, took, err := s.run(gw.Addr("web").String(), func() { <-begin })
			switch {
			case err != nil:
				t.Errorf("%q: after %v and %q: %v", s.begins, took, answer, err)
			case want != "" && !bytes.HasPrefix(answer, []byte(want)) && gatewaytest.Engine() != gatewaytest.Standard:
				t.Errorf("%q was answered with %q", s.begins, answer)
			case want == "" && len(answer) > 0:
				t.Errorf("a silent client was told %q", answer)
			case took < atLeast-100*time.Millisecond || took > slowInTime:
				t.Errorf("%q was closed after %v", s.begins, took)
			}
			if bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) {
				refused.Add(1)
			}
			for {
				last := latest.Load()
				if int64(took) <= last || latest.CompareAndSwap(last, int64(took)) {
					return
				}
			}
		})
	}
	const timeout = "HTTP/1.1 408 "
	for n := range slowSenders {
		header := slowSender{begins: "GET /slow HTTP/1.1\r\nHost: x.test\r\nX-Slow: ", next: "x", before: n%4 == 1}
		if n%4 == 2 {
			header.begins = "G" // not even a line
		}
		send(header, slowHeader, timeout)
		body := slowSender{begins: "POST /slow HTTP/1.1\r\nHost: x.test\r\nContent-Length: 100000\r\n\r\n", next: "x", before: n%4 == 1}
		if n%4 == 2 {
			body.begins, body.next = "POST /slow HTTP/1.1\r\nHost: x.test\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"
		}
		send(body, 0, timeout)
	}
	for range silentClients {
		send(slowSender{}, slowHeader, "")
	}
	running.Wait()
	took := meanwhile.end()
	t.Logf("the last slow sender was closed after %v; %d were told 408; the others waited %v at most (p99 %v of %d), and %v (p99 %v) before",
		time.Duration(latest.Load()).Round(time.Millisecond), refused.Load(), took[len(took)-1], quantile(took, 0.99), len(took), usual[len(usual)-1], quantile(usual, 0.99))
	wantPrompt(t, took)
	if gatewaytest.Engine() == gatewaytest.Standard {
		return // net/http ends slow heads in silence
	}
	timeouts := func() (n int) {
		for _, line := range gw.LogLines() {
			if line["status"] == 408.0 && line["error"] == "request_timeout" {
				n++
			}
		}
		return n
	}
	gatewaytest.WaitFor(t, "all slow senders are logged", func() bool { return timeouts() >= 2*slowSenders })
	if n := timeouts(); n != 2*slowSenders {
		t.Errorf("%d lines tell of a slow sender, want %d: who sent nothing has none", n, 2*slowSenders)
	}
}

// TestSlowHTTPTest is the same with a known program.
func TestSlowHTTPTest(t *testing.T) {
	slowhttptest := program(t, "slowhttptest")
	needFiles(t, 3*slowSenders)
	gw := gatewaytest.StartProcess(t, built(t, sluiceBinary), slowConfig(t))
	url := "http://" + gw.Addr("web")
	client := newPrompt(t, url)
	var running sync.WaitGroup
	for _, test := range []struct{ mode, name string }{{"-H", "slow heads"}, {"-B", "slow bodies"}} {
		running.Go(func() {
			report := filepath.Join(t.TempDir(), "report")
			command := exec.CommandContext(t.Context(), slowhttptest, test.mode, "-c", strconv.Itoa(slowSenders), "-r", strconv.Itoa(slowSenders/2), "-i", "1", "-x", "8",
				"-s", "100000", "-l", strconv.Itoa(slowHTTPLength), "-p", "5", "-u", url+"/", "-g", "-o", report)
			said, err := command.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", test.name, err, said)
				return
			}
			file, err := os.Open(report + ".csv")
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			rows, err := csv.NewReader(file).ReadAll()
			if err != nil || len(rows) < 2 {
				t.Errorf("%s: the report has %d rows, %v", test.name, len(rows), err)
				return
			}
			// It ends early where all connections have been closed.
			last := rows[len(rows)-1]
			t.Logf("%s: the last of %d is closed after %s s", test.name, slowSenders, last[0])
			if !bytes.Contains(said, []byte("No open connections left")) {
				t.Errorf("%s: the connections stay open, after %s s %s of %d are closed\n%s", test.name, last[0], last[1], slowSenders, said)
			}
			// Seconds, closed, pending, connected; the last is not 0 while the
			// program's own probe is answered.
			for _, row := range rows[1:] {
				if row[4] == "0" {
					t.Errorf("%s: nobody is served in second %s", test.name, row[0])
				}
			}
		})
	}
	running.Wait()
	took := client.end()
	t.Logf("the others waited %v at most, p99 %v of %d", took[len(took)-1], quantile(took, 0.99), len(took))
	wantPrompt(t, took)
}

// needFiles fails the test where a process may not have so many descriptors.
func needFiles(t *testing.T, n uint64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < n { // Go programs raise their own to this
		t.Fatalf("a process may have %d files here (ulimit -Hn); the test needs %d", limit.Max, n)
	}
}
