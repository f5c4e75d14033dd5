package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"sluice/internal/gatewaytest"
)

// feed is a service that counts aloud to everybody who listens, by WebSocket at
// /ws and by Server-Sent Events at /events, until it is told to say the last
// number.
type feed struct {
	last    chan struct{}
	clients atomic.Int64 // ever
}

// pace is how fast it counts.
const pace = 5 * time.Millisecond

// count calls say with 0, 1, 2 … and then with -1 for the end.
func (f *feed) count(ctx context.Context, say func(n int) error) {
	f.clients.Add(1)
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 0; ; n++ {
		if say(n) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-f.last:
			_ = say(-1) // the client tells if it did not come
			return
		}
	}
}

func (f *feed) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	f.count(r.Context(), func(n int) error {
		if _, err := fmt.Fprintf(w, "data: %d\n\n", n); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	})
}

func (f *feed) socket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // the client tells
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var answers sync.WaitGroup
	answers.Go(func() { // what the client says comes back
		defer cancel()
		for {
			_, text, err := conn.Read(ctx)
			if err != nil || conn.Write(ctx, websocket.MessageText, append([]byte("echo "), text...)) != nil {
				return
			}
		}
	})
	f.count(ctx, func(n int) error { return conn.Write(ctx, websocket.MessageText, []byte(strconv.Itoa(n))) })
	_ = conn.Close(websocket.StatusNormalClosure, "that was all") // the client tells what it got
	answers.Wait()
}

// listened is a stream as its client sees it.
type listened struct {
	name string
	got  atomic.Int64 // numbers that came, each in its turn
	done chan struct{}
	err  error // after done: why it ended, nil if in order
}

// listen takes numbers from next until the end.
func listen(name string, next func() (int, error)) *listened {
	l := &listened{name: name, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for want := 0; ; want++ {
			got, err := next()
			switch {
			case err != nil:
				l.err = fmt.Errorf("after %d: %w", want-1, err)
				return
			case got == -1:
				return
			case got != want:
				l.err = fmt.Errorf("%d came instead of %d", got, want)
				return
			}
			l.got.Add(1)
		}
	}()
	return l
}

// advances waits until more has come, and twice: what was under way before
// does not count.
func (l *listened) advances(t *testing.T, after string) {
	t.Helper()
	before := l.got.Load()
	gatewaytest.WaitFor(t, l.name+" goes on after "+after, func() bool {
		select {
		case <-l.done:
			t.Fatalf("%s ended after %s: %v", l.name, after, l.err)
		default:
		}
		return l.got.Load() >= before+2
	})
}

// TestStreamsAcrossReloads holds a WebSocket and an event stream open over
// everything that may change around them.
func TestStreamsAcrossReloads(t *testing.T) {
	t.Parallel() // it waits most of the time
	f := &feed{last: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", f.socket)
	mux.HandleFunc("/events", f.events)
	config := streamConfig{feed: gatewaytest.NewHTTP(t, mux), other: gatewaytest.NewEcho(t, "other"), another: gatewaytest.NewEcho(t, "another"), extra: -1}
	gw := gatewaytest.Start(t, config.text())

	ctx, cancel := context.WithTimeout(context.Background(), 10*gatewaytest.Patience)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	socket, _, err := websocket.Dial( //nolint:bodyclose // of a 101, which the library keeps
		ctx, gw.URL("web")+"/ws", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	echoes := make(chan string, 1000)
	ws := listen("the WebSocket", func() (int, error) {
		for {
			_, text, err := socket.Read(ctx)
			if err != nil {
				return 0, err
			}
			if echo, ok := strings.CutPrefix(string(text), "echo "); ok {
				echoes <- echo
				continue
			}
			return strconv.Atoi(string(text))
		}
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, gw.URL("web")+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	events := listen("the event stream", func() (int, error) {
		for lines.Scan() {
			if number, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return strconv.Atoi(number)
			}
		}
		return 0, fmt.Errorf("the response ended: %w", lines.Err())
	})

	reload := func(after string) {
		t.Helper()
		gw.Load(config.text())
		if err := socket.Write(ctx, websocket.MessageText, []byte(after)); err != nil {
			t.Fatalf("after %s: %v", after, err)
		}
		ws.advances(t, after)
		events.advances(t, after)
		select {
		case echo := <-echoes:
			if echo != after {
				t.Fatalf("%q came back, want %q", echo, after)
			}
		case <-time.After(gatewaytest.Patience):
			t.Fatalf("nothing comes back after %s", after)
		}
	}

	began := gw.Current().Revision.Number
	for n := range 100 {
		config.extra = n
		reload("reload " + strconv.Itoa(n))
		if status := statusOf(t, client, gw.URL("web")+"/extra/"+strconv.Itoa(n)); status != http.StatusNoContent {
			t.Fatalf("the route of reload %d answers %d", n, status)
		}
	}
	if now := gw.Current().Revision.Number; now != began+100 {
		t.Errorf("a hundred reloads led from revision %d to %d", began, now)
	}
	config.other = config.another
	reload("a change of another upstream")
	config.pool = "{max_idle_per_endpoint: 3, idle_timeout: 1s}"
	reload("a change of its upstream's pool")
	config.timeouts = "{read_header: 3s, idle: 5s}"
	reload("a change of its listener's time-outs")
	config.feed = config.other
	reload("a change of its upstream's endpoint")
	config.without = true
	reload("the end of its route and upstream")
	if status := statusOf(t, client, gw.URL("web")+"/events"); status != http.StatusNotFound {
		t.Fatalf("a route that was removed answers %d", status)
	}

	if clients := f.clients.Load(); clients != 2 {
		t.Errorf("the service had %d clients, want 2", clients)
	}
	close(f.last)
	for _, l := range []*listened{ws, events} {
		<-l.done
		if l.err != nil {
			t.Errorf("%s: %v", l.name, l.err)
		}
		if l.got.Load() < 200 {
			t.Errorf("%s got only %d messages", l.name, l.got.Load())
		}
	}
	if _, _, err := socket.Read(ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the WebSocket was closed with %v", err)
	}
}

// streamConfig is what changes around the streams.
type streamConfig struct {
	feed, other, another string
	pool, timeouts       string
	extra                int
	without              bool // the streams' route and upstream
}

func (c *streamConfig) text() string {
	timeouts, pool := c.timeouts, c.pool
	if timeouts == "" {
		timeouts = "{}"
	}
	if pool == "" {
		pool = "{}"
	}
	text := fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0", timeouts: %s}}
admin: {address: "127.0.0.1:0"}
upstreams:
  other: {endpoints: [%q]}
`, timeouts, c.other)
	if !c.without {
		text += fmt.Sprintf("  feed: {endpoints: [%q], pool: %s}\n", c.feed, pool)
	}
	text += fmt.Sprintf(`
routes:
  - {id: other, match: {path_prefix: /other}, upstream: other}
  - {id: extra, match: {path: /extra/%d}, respond: {status: 204}}
`, c.extra)
	if !c.without {
		text += `
  - {id: ws, match: {path: /ws}, upstream: feed}
  - {id: events, match: {path: /events}, upstream: feed}
`
	}
	return text
}

// statusOf is the status of a GET, read to its end.
func statusOf(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
