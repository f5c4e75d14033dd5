package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/gatewaytest"
)

const (
	wantedInFlight = 10_000
	leastInFlight  = 4_000
	spareFiles     = 100 // descriptors of a process besides those of the requests
)

// flightPlan is how many requests can be in flight here.
type flightPlan struct {
	requests    int // in flight in the gateway
	connections int // to the endpoint; the other requests wait for one
}

// planFlight fits the requests into the descriptors that a process may have:
// the gateway needs one for each client, and one for each connection to the
// endpoint.
func planFlight(t *testing.T) flightPlan {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// The processes that are started raise their own, as Go programs do.
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) })
	}
	files := int(min(limit.Max, 1<<20)) - spareFiles
	p := flightPlan{requests: wantedInFlight, connections: min(wantedInFlight, files-wantedInFlight)}
	if p.connections < wantedInFlight*9/10 {
		p.requests = min(wantedInFlight, files/2)
		p.connections = p.requests
	}
	if p.requests < leastInFlight {
		t.Fatalf("a process may have %d files here (ulimit -Hn), which lets %d requests be in flight; the test needs %d", limit.Max, p.requests, leastInFlight)
	}
	if p.connections < wantedInFlight {
		t.Logf("a process may have only %d files here (ulimit -Hn): %d requests in flight, %d of them wait for a connection", limit.Max, p.requests, p.requests-p.connections)
	}
	return p
}

// holder is the endpoint that holds its answers, in a process of its own.
type holder struct{ url string }

func startHolder(t *testing.T) *holder {
	t.Helper()
	command := exec.Command(built(t, holdBinary))
	lead, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		lead.Close()
		_ = command.Wait() // it ends with its standard input
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &holder{url: url[:len(url)-1]}
}

// ask returns what the endpoint itself answers.
func (h *holder) ask(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get(h.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (h *holder) held(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(h.ask(t, "/count"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRequestsInFlightAcrossReloads has ten thousand requests wait for their
// answers while the configuration is replaced twenty times; short requests go
// on meanwhile. None may fail.
func TestRequestsInFlightAcrossReloads(t *testing.T) {
	plan := planFlight(t)
	endpoint := startHolder(t)
	config := func(n int) string {
		return fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
access_log: {output: none}
upstreams:
  hold:
    endpoints: [%[1]q]
    pool: {max_connections_per_endpoint: %[2]d, max_pending: %[3]d, max_idle_per_endpoint: %[4]d}
    timeouts: {connect: 30s}
  quick: {endpoints: [%[1]q]}
routes:
  - {id: hold, match: {path_prefix: /hold}, upstream: hold, timeout: 0, idle_timeout: 10m}
  - {id: quick, match: {path_prefix: /quick}, upstream: quick}
  - {id: fixed, match: {path: /fixed}, respond: {status: 200, body: "fixed by %[5]d"}}
  - {id: reload-%[5]d, match: {path: /reload/%[5]d}, respond: {status: 200, body: "reload %[5]d"}}
`, endpoint.url, plan.connections, plan.requests-plan.connections+10, 10+n/5, n)
	}
	gw := gatewaytest.StartProcess(t, built(t, sluiceBinary), config(0))
	address := gw.Addr("web")
	idle := gw.Memory("VmRSS")

	// One goroutine for all clients.
	began := time.Now()
	clients := make([]net.Conn, plan.requests)
	defer func() {
		for _, conn := range clients {
			if conn != nil {
				conn.Close()
			}
		}
	}()
	for i := range clients {
		conn, err := net.DialTimeout("tcp", address, gatewaytest.Patience)
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		clients[i] = conn
		if _, err := fmt.Fprintf(conn, "GET /hold/%d HTTP/1.1\r\nHost: x\r\n\r\n", i); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		if i%500 == 499 { // no queue of the system need hold more
			gatewaytest.WaitFor(t, "the endpoint has them", func() bool { return endpoint.held(t) == min(i+1, plan.connections) })
		}
	}
	gatewaytest.WaitFor(t, "all are in flight", func() bool {
		return endpoint.held(t) == plan.connections && gw.Metric("gateway_active_requests") == float64(plan.requests)
	})
	t.Logf("%d requests in flight after %v; the gateway has %d KiB more than before, for each %d bytes",
		plan.requests, time.Since(began).Round(time.Millisecond), (gw.Memory("VmRSS")-idle)>>10, (gw.Memory("VmRSS")-idle)/int64(plan.requests))

	short := startShort(address)
	defer short.stop()
	for n := 1; n <= 20; n++ {
		gw.Load(config(n))
		served := short.served.Load()
		gatewaytest.WaitFor(t, "short requests go on", func() bool { return short.served.Load() > served+10 || short.failed() })
		if body, err := short.get(fmt.Sprintf("/reload/%d", n)); err != nil || body != fmt.Sprintf("reload %d", n) {
			t.Fatalf("the route of reload %d answers %q, %v", n, body, err)
		}
	}
	if revision := gw.Metric("gateway_config_revision"); revision != 21 {
		t.Errorf("twenty reloads led to revision %v", revision)
	}
	if held := endpoint.held(t); held != plan.connections {
		t.Errorf("the endpoint holds %d requests after the reloads, want %d", held, plan.connections)
	}

	endpoint.ask(t, "/release")
	for i, conn := range clients {
		if err := answered(conn, fmt.Sprintf("answer to /hold/%d", i)); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if err := short.stop(); err != nil {
		t.Errorf("a short request failed: %v", err)
	}
	t.Logf("all answered after %v; %d short requests meanwhile", time.Since(began).Round(time.Millisecond), short.served.Load())
	gatewaytest.WaitFor(t, "nothing is in flight", func() bool { return gw.Metric("gateway_active_requests") == 0 })
	if failed := gw.Metric("gateway_errors_total"); failed != 0 {
		t.Errorf("the gateway counted %v errors", failed)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// answered reads a whole answer, which must be 200 with this body.
func answered(conn net.Conn, want string) error {
	if err := conn.SetReadDeadline(time.Now().Add(gatewaytest.Patience)); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || string(body) != want {
		return fmt.Errorf("status %d, %q; want %q", response.StatusCode, body, want)
	}
	return nil
}

// short sends short requests one after another, to a route that is forwarded
// and one that every reload changes.
type short struct {
	base    string
	client  *http.Client
	served  atomic.Int64
	ended   chan struct{}
	stopped sync.Once
	running sync.WaitGroup
	first   atomic.Pointer[error]
}

func startShort(address string) *short {
	s := &short{base: "http://" + address, ended: make(chan struct{})}
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}, Timeout: gatewaytest.Patience}
	for range 4 {
		s.running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-s.ended:
					return
				default:
				}
				if err := s.pair(n); err != nil {
					s.first.CompareAndSwap(nil, &err)
					return
				}
				s.served.Add(2)
			}
		})
	}
	return s
}

func (s *short) pair(n int) error {
	path := fmt.Sprintf("/quick/%d", n)
	if body, err := s.get(path); err != nil || body != "answer to "+path {
		return fmt.Errorf("%s: %q, %v", path, body, err)
	}
	var by int
	body, err := s.get("/fixed")
	if _, scan := fmt.Sscanf(body, "fixed by %d", &by); err != nil || scan != nil {
		return fmt.Errorf("/fixed: %q, %v", body, errors.Join(err, scan))
	}
	return nil
}

// get returns the body of an answer that must be 200.
func (s *short) get(path string) (string, error) {
	response, err := s.client.Get(s.base + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return string(body), err
}

func (s *short) failed() bool { return s.first.Load() != nil }

// stop ends the requests and returns the first failure. It may be called twice.
func (s *short) stop() error {
	s.stopped.Do(func() { close(s.ended) })
	s.running.Wait()
	s.client.CloseIdleConnections()
	if err := s.first.Load(); err != nil {
		return *err
	}
	return nil
}
