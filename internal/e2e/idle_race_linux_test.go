package e2e

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

var idleRaceRequests = flag.Int("idle-race", 3_000, "how many requests of each method meet connections that just close")

const (
	idleRaceClients = 32
	idleRaceClose   = 50 * time.Millisecond // after so long the endpoint closes an idle connection
)

// hasty is an endpoint that closes idle connections early, and knows whose bytes
// had come by then.
type hasty struct {
	t           *testing.T
	url         string
	connections atomic.Int64
	closed      atomic.Int64 // for being idle

	mu        sync.Mutex
	arrived   map[string]int  // how many connections brought bytes of a request
	swallowed map[string]bool // requests that a closing connection had acknowledged; true: it was reset
}

func newHasty(t *testing.T) *hasty {
	t.Helper()
	h := &hasty{t: t, arrived: map[string]int{}, swallowed: map[string]bool{}}
	h.url = listenTCP(t, func(conn *net.TCPConn) { h.serve(conn, h.connections.Add(1)) })
	return h
}

// listenTCP starts a TCP service and returns its URL; serve closes the
// connection it is given.
func listenTCP(t *testing.T, serve func(conn *net.TCPConn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var open sync.Map
	running.Go(func() {
		for {
			accepted, err := listener.Accept()
			if err != nil {
				return
			}
			conn := accepted.(*net.TCPConn)
			open.Store(conn, true)
			running.Go(func() {
				defer open.Delete(conn)
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		for conn := range open.Range {
			conn.(*net.TCPConn).Close()
		}
		running.Wait()
	})
	return "http://" + listener.Addr().String()
}

var raceID = regexp.MustCompile(`(?m)^X-Id: (\S+)\r$`)

// note records that a connection has brought bytes of a request.
func (h *hasty) note(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arrived[id]++
}

func (h *hasty) serve(conn *net.TCPConn, number int64) {
	counted := &counter{Reader: conn}
	in := bufio.NewReader(counted)
	for served := 0; ; served++ {
		if served > 0 {
			_ = conn.SetReadDeadline(time.Now().Add(idleRaceClose))
			if _, err := in.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
				h.leave(conn, counted.n, number)
				return
			}
			_ = conn.SetReadDeadline(time.Time{})
		}
		request, err := http.ReadRequest(in)
		if err != nil {
			conn.Close() // the gateway has left
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			h.t.Errorf("a body ended with %v", err)
		}
		h.note(request.Header.Get("X-Id"))
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX-Served: %d\r\nContent-Length: %d\r\n\r\n%s", served, len(body), body); err != nil {
			h.t.Errorf("an answer ended with %v", err)
		}
	}
}

// leave closes an idle connection, and keeps whose bytes had come meanwhile.
func (h *hasty) leave(conn *net.TCPConn, read uint64, number int64) {
	orderly := number%2 == 0
	p := part(h.t, conn, orderly)
	h.closed.Add(1)
	if all := read + uint64(len(p.swallowed)); p.received != all && p.received != all+1 {
		h.t.Errorf("%d bytes were acknowledged by TCP_INFO, %d were read", p.received, all)
	}
	if len(p.swallowed) == 0 {
		return
	}
	id := raceID.FindSubmatch(p.swallowed)
	if id == nil {
		h.t.Errorf("a closing connection had brought %q", p.swallowed)
		return
	}
	h.note(string(id[1]))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.swallowed[string(id[1])] = !orderly
}

// counter counts what is read.
type counter struct {
	io.Reader
	n uint64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += uint64(n)
	return n, err
}

// racer is a client whose requests arrive just as the endpoint closes the
// connection: after each answer it waits a little longer where that came on a
// used connection, and a little less where it came on a new one. Its upstream is
// its own, so that nobody else uses its connection meanwhile.
type racer struct {
	gw      *gatewaytest.Gateway
	method  string
	number  int
	wait    time.Duration // before the next request
	step    time.Duration // by which wait changed last
	longer  bool          // it became longer
	conn    net.Conn
	in      *bufio.Reader
	fresh   int      // answers that came on a new connection
	failed  bool     // the last answer was 502
	refused []string // requests that were answered with 502
}

func (r *racer) run(t *testing.T, requests int) {
	t.Helper()
	r.wait, r.step = idleRaceClose*4/5, 4*time.Millisecond
	defer func() {
		if r.conn != nil {
			r.conn.Close()
		}
	}()
	for n := range requests {
		if err := r.request(fmt.Sprintf("%s-%d-%d", r.method, r.number, n)); err != nil {
			t.Errorf("client %d, request %d: %v", r.number, n, err)
			return
		}
		<-time.After(r.wait)
	}
}

func (r *racer) request(id string) error {
	if r.conn == nil {
		conn, err := net.DialTimeout("tcp", r.gw.Addr("web").String(), gatewaytest.Patience)
		if err != nil {
			return err
		}
		r.conn, r.in = conn, bufio.NewReader(conn)
	}
	if err := r.conn.SetDeadline(time.Now().Add(gatewaytest.Patience)); err != nil {
		return err
	}
	body := ""
	if r.method == http.MethodPost {
		body = "the body of " + id
	}
	text := fmt.Sprintf("%s /%d/ HTTP/1.1\r\nHost: x.test\r\nX-Id: %s\r\n", r.method, r.number, id)
	if body != "" {
		text += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	if _, err := io.WriteString(r.conn, text+"\r\n"+body); err != nil {
		return err
	}
	response, err := http.ReadResponse(r.in, nil)
	if errors.Is(err, io.ErrUnexpectedEOF) && r.failed && gatewaytest.Engine() == gatewaytest.Standard {
		// After a request that failed net/http may close without a word.
		r.conn.Close()
		r.conn, r.failed = nil, false
		return r.request(id)
	}
	if err != nil {
		return err
	}
	r.failed = response.StatusCode == http.StatusBadGateway
	answer, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return err
	}
	if response.Close {
		r.conn.Close()
		r.conn = nil
	}
	switch {
	case response.StatusCode == http.StatusBadGateway:
		if !strings.Contains(string(answer), `"error":"upstream_reset"`) {
			return fmt.Errorf("the answer is %s", answer)
		}
		r.refused = append(r.refused, id)
	case response.StatusCode != http.StatusOK || string(answer) != body:
		return fmt.Errorf("status %d %q", response.StatusCode, answer)
	case response.Header.Get("X-Served") == "0":
		r.fresh++
		r.steer(false)
	default:
		r.steer(true)
	}
	return nil
}

// steer changes the time between requests by a step: by a smaller one where it
// was too much the last time, by a larger one where it was not enough.
func (r *racer) steer(longer bool) {
	const least, most = 100 * time.Microsecond, 4 * time.Millisecond
	if longer == r.longer {
		r.step = min(r.step*5/4, most)
	} else {
		r.step = max(r.step/2, least)
	}
	r.longer = longer
	if longer {
		r.wait = min(r.wait+r.step, 2*idleRaceClose)
	} else {
		r.wait = max(r.wait-r.step, 0)
	}
}

// TestIdleRace has requests meet connections that the endpoint closes just then.
// A GET is sent again on a new connection. A POST is, too, where nothing of it
// had been acknowledged; where something had it is 502, for it may have been
// carried out. No POST ever reaches the endpoint twice.
func TestIdleRace(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			began := time.Now()
			endpoint := newHasty(t)
			var config strings.Builder
			config.WriteString("listeners: {web: {address: \"127.0.0.1:0\"}}\nadmin: {address: \"127.0.0.1:0\"}\naccess_log: {output: none}\nroutes:\n")
			upstreams := "upstreams:\n"
			for n := range idleRaceClients {
				upstreams += fmt.Sprintf("  u%d: {endpoints: [%q]}\n", n, endpoint.url)
				fmt.Fprintf(&config, "  - {match: {path: /%d/}, upstream: u%d}\n", n, n)
			}
			gw := gatewaytest.Start(t, config.String()+upstreams)
			racers := make([]racer, idleRaceClients)
			var running sync.WaitGroup
			for n := range racers {
				racers[n] = racer{gw: gw, method: method, number: n}
				running.Go(func() { racers[n].run(t, (*idleRaceRequests+idleRaceClients-1)/idleRaceClients) })
			}
			running.Wait()
			if t.Failed() {
				return
			}
			fresh, refused := 0, map[string]bool{}
			for n := range racers {
				fresh += racers[n].fresh
				for _, id := range racers[n].refused {
					refused[id] = true
				}
			}
			endpoint.tell(t, method, fresh, refused, time.Since(began))
		})
	}
}

// tell holds what the clients and the endpoint saw against each other.
func (h *hasty) tell(t *testing.T, method string, fresh int, refused map[string]bool, took time.Duration) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	resets := 0
	for _, reset := range h.swallowed {
		if reset {
			resets++
		}
	}
	twice := 0
	for _, n := range h.arrived {
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d requests in %v over %d connections, %d of them closed when idle; %d answers came on a new one; %d requests were acknowledged by a connection that closed, %d of these were reset; %d reached the endpoint twice; %d were answered with 502",
		len(h.arrived), took.Round(time.Millisecond), h.connections.Load(), h.closed.Load(), fresh, len(h.swallowed), resets, twice, len(refused))
	if *long && len(h.swallowed) == 0 {
		t.Error("no request met a connection that closed: the race was not run")
	}
	if method == http.MethodGet {
		if len(refused) > 0 {
			t.Errorf("a GET can be sent again, but %d were answered with 502", len(refused))
		}
		return
	}
	for id, n := range h.arrived {
		if n > 1 {
			t.Errorf("%s reached the endpoint %d times", id, n)
		}
	}
	if gatewaytest.Engine() == gatewaytest.Standard {
		return // net/http has its own rules
	}
	for id := range refused {
		if _, swallowed := h.swallowed[id]; !swallowed {
			t.Errorf("%s was answered with 502, and no connection that closed had acknowledged it", id)
		}
	}
	for id, reset := range h.swallowed {
		if !refused[id] {
			t.Errorf("%s was acknowledged by a connection that closed (reset: %t), and not answered with 502", id, reset)
		}
	}
}
