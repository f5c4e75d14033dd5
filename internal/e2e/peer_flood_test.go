package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/gatewaytest"
)

const (
	floodRounds  = 3         // connections of each of them
	floodClients = 2         // that flood at once, one on each listener
	floodPlenty  = 2_000_000 // steps of a flood, which no connection may come to
	floodAnswers = 10        // that everybody else gets meanwhile
	// floodRequests is how many requests one connection may bring to the endpoint:
	// what a client may reset at once, and some that it has time to add.
	floodRequests = 1000
	floodStreams  = 250 // and how many of these at once
)

// flooded is a gateway in a process of its own, to be flooded, with an endpoint
// behind it that counts.
type flooded struct {
	*gatewaytest.Process
	roots     *x509.CertPool
	addresses map[string]string // of listeners

	begun   atomic.Int64 // requests at the endpoint, but for those of steady clients
	running atomic.Int64
	most    atomic.Int64 // that ran at once
}

func startFlooded(t *testing.T) *flooded {
	t.Helper()
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http's own server is there for HTTP/1.1 alone")
	}
	g := &flooded{roots: x509.NewCertPool(), addresses: map[string]string{}}
	cert, key := selfSigned(t, siteHost)
	trust(t, g.roots, cert)
	g.Process = gatewaytest.StartProcess(t, built(t, sluiceBinary), fmt.Sprintf(`
listeners:
  web: {address: "127.0.0.1:0", timeouts: {read_header: 2s}}
  websecure: {address: "127.0.0.1:0", timeouts: {read_header: 2s}, tls: {certificates: [{cert: %q, key: %q}]}}
access_log: {output: none}
upstreams: {up: {endpoints: [%q], pool: {max_idle_per_endpoint: 4}}}
routes:
  - {id: all, match: {path_prefix: /}, upstream: up, idle_timeout: 1s}
  - {id: steady, match: {path: /steady}, upstream: up}
`, cert, key, gatewaytest.NewHTTP(t, g)))
	for _, name := range []string{"web", "websecure"} {
		g.addresses[name] = g.Addr(name)
	}
	return g
}

// ServeHTTP is the endpoint.
func (g *flooded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/steady" {
		_, _ = io.WriteString(w, "steady")
		return
	}
	g.begun.Add(1)
	g.most.Store(max(g.most.Load(), g.running.Add(1))) // nearly
	defer g.running.Add(-1)
	switch r.URL.Path {
	case "/endless":
		piece := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	case "/hold":
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
}

// flood is what a client does to a gateway.
type flood struct {
	name string
	step func(c *frameClient, n int) error // over and over, until the connection ends
	deaf bool                              // it reads nothing
	// calm says that the connection ends with GOAWAY (ENHANCE_YOUR_CALM); else
	// it need not be told.
	calm bool
	// requests says that what it begins goes to the endpoint.
	requests bool
}

// floods are those of frames without end.
func floods() []flood {
	get := func(c *frameClient, n int, path string, end bool) error {
		return c.WriteHeaders(http2.HeadersFrameParam{StreamID: streamOf(n), BlockFragment: c.block("GET", path), EndHeaders: true, EndStream: end})
	}
	post := func(c *frameClient) error {
		return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block("POST", "/hold"), EndHeaders: true})
	}
	return []flood{
		{name: "rapid reset", calm: true, requests: true, step: func(c *frameClient, n int) error {
			if err := get(c, n, "/hold", true); err != nil {
				return err
			}
			return c.WriteRSTStream(streamOf(n), http2.ErrCodeCancel)
		}},
		{name: "resets that the gateway is made to send", calm: true, requests: true, step: func(c *frameClient, n int) error {
			if err := get(c, n, "/hold", true); err != nil {
				return err
			}
			return c.WriteWindowUpdate(streamOf(n), 0)
		}},
		{name: "streams past the limit", calm: true, requests: true, step: func(c *frameClient, n int) error { return get(c, n, "/hold", true) }},
		{name: "CONTINUATION", calm: true, step: func(c *frameClient, n int) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block("GET", "/hold"), EndStream: true})
			}
			return c.WriteContinuation(1, false, c.fields("x-a", "1"))
		}},
		{name: "large CONTINUATION", calm: true, step: func(c *frameClient, n int) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block("GET", "/hold"), EndStream: true})
			}
			return c.WriteContinuation(1, false, c.fields("x-"+strconv.Itoa(n), strings.Repeat("x", 10<<10)))
		}},
		{name: "empty CONTINUATION", calm: true, step: func(c *frameClient, n int) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block("GET", "/hold"), EndStream: true})
			}
			return c.WriteContinuation(1, false, nil)
		}},
		{name: "SETTINGS", calm: true, step: func(c *frameClient, n int) error {
			return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(n)})
		}},
		{name: "SETTINGS, not read", deaf: true, step: func(c *frameClient, _ int) error { return c.WriteSettings() }},
		{name: "PING", calm: true, step: func(c *frameClient, _ int) error { return c.WritePing(false, [8]byte{}) }},
		{name: "PING, not read", deaf: true, step: func(c *frameClient, _ int) error { return c.WritePing(false, [8]byte{}) }},
		{name: "empty DATA", calm: true, requests: true, step: func(c *frameClient, n int) error {
			if n == 0 {
				return post(c)
			}
			return c.WriteData(1, false, nil)
		}},
		{name: "WINDOW_UPDATE", calm: true, step: func(c *frameClient, _ int) error { return c.WriteWindowUpdate(0, 1) }},
		{name: "fields that are one byte and thousands", step: largeFields},
	}
}

// largeFields sends header lists that are long by the references in them, which
// are 431: that is no fault of the connection.
func largeFields(c *frameClient, n int) error {
	const most = 100
	if n == most {
		return errEnough
	}
	// The first block puts a field into the table; each refers to it by one byte
	// (RFC 7541 6.1), 62 being the newest entry.
	block := c.block("GET", "/hold")
	if n == 0 {
		block = append(block, c.indexed("x-large", strings.Repeat("x", 3900))...)
	}
	block = append(block, bytes.Repeat([]byte{0x80 | 62}, 12<<10)...)
	return c.WriteHeaders(http2.HeadersFrameParam{StreamID: streamOf(n), BlockFragment: block, EndHeaders: true, EndStream: true})
}

func streamOf(n int) uint32 { return uint32(2*n + 1) }

// TestFloods has some clients flood the gateway with each flood, connection after
// connection, while others are served: its memory and what reaches the endpoint
// are bounded, it ends the connections, and nothing of it remains.
func TestFloods(t *testing.T) {
	g := startFlooded(t)
	others := g.others(t)
	others.answered(t, floodAnswers)
	idle := g.figures(t)
	for _, f := range floods() {
		t.Run(f.name, func(t *testing.T) {
			g.begun.Store(0)
			g.most.Store(0)
			ctx, stop := context.WithCancel(t.Context())
			var connections, worst atomic.Int64
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			for n := range floodClients {
				listener := oneAfterAnother(n, "web", "websecure")
				running.Go(func() {
					for n := 0; n < floodRounds && ctx.Err() == nil; n++ {
						sent := g.flood(t, listener, f)
						worst.Store(max(worst.Load(), int64(sent)))
						connections.Add(1)
					}
				})
			}
			others.answered(t, floodAnswers)
			running.Wait()
			begun := g.begun.Load()
			peak := g.Memory("VmHWM")
			t.Logf("%d connections, %d steps at most; %d requests reached the endpoint, %d at once; the gateway had %d MiB when idle and at most %d MiB so far",
				connections.Load(), worst.Load(), begun, g.most.Load(), idle.memory>>20, peak>>20)
			if most := connections.Load() * floodRequests; begun > most || !f.requests && begun > 0 {
				t.Errorf("%d requests reached the endpoint", begun)
			}
			if most := g.most.Load(); most > connections.Load()*floodStreams {
				t.Errorf("%d requests were at the endpoint at once", most)
			}
			if over := peak - idle.memory; over > mostOverIdle {
				t.Errorf("the gateway took %d MiB more than when idle, %d are allowed", over>>20, mostOverIdle>>20)
			}
			gatewaytest.WaitFor(t, "nothing is under way", func() bool {
				return g.running.Load() == 0 && g.Metric("gateway_active_requests") <= float64(len(others.clients))
			})
		})
	}
	others.end(t)
	g.rests(t, idle)
}

// flood floods one connection and returns how many steps it took.
func (g *flooded) flood(t *testing.T, listener string, f flood) (steps int) {
	t.Helper()
	c := g.frame(t, listener, f.deaf)
	if c == nil {
		return 0
	}
	defer c.close()
	var err error
	for steps < floodPlenty && err == nil && !c.isOver() {
		if err = f.step(c, steps); err == nil {
			steps++
		}
	}
	switch {
	case err == errEnough: //nolint:errorlint // the very value
		if c.flush() != nil {
			t.Errorf("the connection ended after %d steps", steps)
			return steps
		}
		c.hears(t, "431", steps)
		return steps
	case steps == floodPlenty:
		t.Errorf("a connection took %d steps", steps)
	}
	c.over(t)
	if code := c.away(); f.calm && code != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("after %d steps the connection ended with %v", steps, code)
	}
	return steps
}

// TestStalledClients has clients that ask for much and never open their windows:
// the responses wait at the endpoint, and are given up in time.
func TestStalledClients(t *testing.T) {
	const streams = 50
	g := startFlooded(t)
	others := g.others(t)
	others.answered(t, floodAnswers)
	idle := g.figures(t)
	var clients []*frameClient
	for n := range floodClients {
		c := g.frame(t, oneAfterAnother(n, "web", "websecure"), false)
		if c == nil {
			return
		}
		t.Cleanup(c.close)
		err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(n % 2)}) // nothing, or a byte
		for n := 0; n < streams && err == nil; n++ {
			err = c.WriteHeaders(http2.HeadersFrameParam{StreamID: streamOf(n), BlockFragment: c.block("GET", "/endless"), EndHeaders: true, EndStream: true})
		}
		if err == nil {
			err = c.flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	gatewaytest.WaitFor(t, "all requests are at the endpoint", func() bool { return g.begun.Load() == floodClients*streams })
	others.answered(t, floodAnswers)
	for _, c := range clients {
		c.hears(t, "RST_STREAM", streams) // idle_timeout
	}
	gatewaytest.WaitFor(t, "the endpoint is told", func() bool { return g.running.Load() == 0 })
	peak := g.Memory("VmHWM")
	t.Logf("the gateway had %d MiB when idle and at most %d MiB", idle.memory>>20, peak>>20)
	if over := peak - idle.memory; over > mostOverIdle {
		t.Errorf("the gateway took %d MiB more than when idle, %d are allowed", over>>20, mostOverIdle>>20)
	}
	for _, c := range clients { // the connections still serve
		if code := c.away(); code != noGoAway {
			t.Errorf("a connection ended with %v", code)
		}
		c.close()
	}
	others.end(t)
	g.rests(t, idle)
}

// TestHalfAnOpening has clients that begin a header block and say no more.
func TestHalfAnOpening(t *testing.T) {
	g := startFlooded(t)
	var clients []*frameClient
	for n := range floodClients {
		c := g.frame(t, oneAfterAnother(n, "web", "websecure"), false)
		if c == nil {
			return
		}
		t.Cleanup(c.close)
		if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block("GET", "/hold")}); err != nil || c.flush() != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	for _, c := range clients { // read_header
		c.over(t)
		if code := c.away(); code != http2.ErrCodeProtocol {
			t.Errorf("the connection ended with %v", code)
		}
	}
	if begun := g.begun.Load(); begun != 0 {
		t.Errorf("%d requests reached the endpoint", begun)
	}
}

// figures are what a gateway holds.
type figures struct {
	memory, goroutines, files int64
}

func (g *flooded) figures(t *testing.T) figures {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return figures{g.Memory("VmRSS"), int64(g.Metric("go_goroutines")), int64(len(files))}
}

// rests waits until the gateway holds no more than when it was idle.
func (g *flooded) rests(t *testing.T, idle figures) {
	t.Helper()
	var now figures
	for _, name := range []string{"gateway_active_requests", "gateway_downstream_connections"} {
		gatewaytest.WaitFor(t, name+" is 0", func() bool { return g.Metric(name) == 0 })
	}
	deadline := time.Now().Add(gatewaytest.Patience)
	for { // what ends by itself may take a moment
		now = g.figures(t)
		if now.goroutines <= idle.goroutines && now.files <= idle.files {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the gateway holds %d goroutines and %d files, and held %d and %d", now.goroutines, now.files, idle.goroutines, idle.files)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// others are clients that do no harm, by each way that there is over TCP.
type others struct {
	clients []*steady
	stop    context.CancelFunc
	running sync.WaitGroup
}

func (g *flooded) others(t *testing.T) *others {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	o := &others{stop: stop}
	for _, way := range []string{"h1", "h2c", "h1 over TLS", "h2"} {
		client := &steady{siteClient: newSiteClient(t, way, g.addresses[listenerFor(way)], g.roots)}
		o.clients = append(o.clients, client)
		o.running.Go(func() { client.run(t, ctx, "/steady") })
	}
	t.Cleanup(func() {
		stop()
		o.running.Wait()
	})
	return o
}

// answered waits until each has so many answers more.
func (o *others) answered(t *testing.T, more int64) {
	t.Helper()
	want := map[*steady]int64{}
	for _, client := range o.clients {
		want[client] = client.answered.Load() + more
	}
	gatewaytest.WaitFor(t, "everybody else is answered", func() bool {
		for client, n := range want {
			if client.failed.Load() {
				t.Fatal("somebody else is not served")
			}
			if client.answered.Load() < n {
				return false
			}
		}
		return true
	})
}

// end stops them. None has lost its connection.
func (o *others) end(t *testing.T) {
	t.Helper()
	o.stop()
	o.running.Wait()
	for _, client := range o.clients {
		longest := time.Duration(client.longest.Load())
		t.Logf("%s: %d answers, the longest took %v", client.base, client.answered.Load(), longest)
		if dialed := client.dialed.Load(); dialed != 1 {
			t.Errorf("%s: %d connections were made", client.base, dialed)
		}
		client.CloseIdleConnections()
	}
}
