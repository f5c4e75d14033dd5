package transport

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

func TestIdleConnectionsRetire(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint, arrived, answer := gated(t)
		var c counts
		const timeout = 300 * time.Millisecond
		transport := open(t, endpoint, setup{pool: model.Pool{IdleTimeout: timeout}, observer: c.observer()})
		first, second := inBackground(t.Context(), transport, "/"), inBackground(t.Context(), transport, "/")
		waittest.Receive(t, "a request", arrived)
		waittest.Receive(t, "a request", arrived)
		start := time.Now()
		answer <- struct{}{}
		answer <- struct{}{}
		answered(t, first)
		answered(t, second)
		waittest.Until(t, "both are closed", func() bool { return c.closed.Load() == 2 })
		if took := time.Since(start); took < timeout {
			t.Errorf("after %v", took)
		}
		late := inBackground(t.Context(), transport, "/") // whoever retires them has ended, and begins again
		waittest.Receive(t, "a request", arrived)
		answer <- struct{}{}
		answered(t, late)
		waittest.Until(t, "the third is closed", func() bool { return c.closed.Load() == 3 })
	})
}

// What the endpoint closes does not rest until somebody wants it.
func TestStaleConnectionsRetire(t *testing.T) {
	engines(t, func(t *bed) {
		for name, after := range map[string]func(p *peer){
			"closed": func(*peer) {},
			"spoken": func(p *peer) { p.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"); _, _ = p.Peek(1) },
		} {
			rests := make(chan bool)
			endpoint := scripted(t, func(p *peer) {
				p.head()
				p.say(ok)
				<-rests
				after(p)
			})
			var c counts
			transport := open(t, endpoint, setup{observer: c.observer()})
			ask(t, transport, get("/"))
			close(rests)
			waittest.Until(t, name+": it is closed", func() bool { return c.closed.Load() == 1 })
			if _, body := ask(t, transport, get("/")); body != "ok" {
				t.Errorf("%s: got %q", name, body)
			}
		}
	})
}

// The connection that was used last is the first to be used again.
func TestLastUsedFirst(t *testing.T) {
	engines(t, func(t *bed) {
		var connections atomic.Int64
		hold := make(chan struct{})
		endpoint := scripted(t, func(p *peer) {
			n := strconv.FormatInt(connections.Add(1), 10)
			for head := p.head(); head != ""; head = p.head() {
				if strings.Contains(head, "/hold") {
					<-hold
				}
				p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + n)
			}
		})
		transport := open(t, endpoint, setup{})
		first := inBackground(t.Context(), transport, "/hold")
		waittest.Until(t, "it is made", func() bool { return connections.Load() == 1 })
		ask(t, transport, get("/")) // on the second
		close(hold)
		answered(t, first)
		for range 3 {
			if _, body := ask(t, transport, get("/")); body != "1" {
				t.Errorf("it goes over connection %s", body)
			}
		}
	})
}

// several are the loops of a bed, each doing attempts, and goroutines.
func several(t testing.TB, endpoint model.Endpoint, s setup) (p *pool, all []pipeline.Transport) {
	t.Helper()
	loops := startLoops(t)
	p = newPool(wayOf(endpoint, s), NewEngine(loops, startGoroutines(t)))
	t.Cleanup(p.Release)
	for _, loop := range loops {
		all = append(all, by(loop, p))
	}
	return p, append(all, by(nil, p))
}

// Where the limit leaves no room for another connection, one moves to the
// executor that needs it.
func TestConnectionsMoveBetweenExecutors(t *testing.T) {
	var c counts
	p, all := several(t, scripted(t, answering(ok)), setup{pool: model.Pool{MaxConnections: 1}, observer: c.observer()})
	for range 3 {
		for _, transport := range all {
			for range 2 {
				if _, body := ask(t, transport, get("/")); body != "ok" {
					t.Errorf("got %q", body)
				}
			}
		}
	}
	if got := c.String(); got != "opened 1, reused 17, closed 0" {
		t.Error(got)
	}
	if p.queue.places != 1 {
		t.Errorf("%d places are taken", p.queue.places)
	}
}

// Attempts of all executors wait for few connections, and some of them give up.
func TestWaitingOverExecutors(t *testing.T) {
	var c counts
	observer := c.observer()
	observer.Opened = func(_, _ string) {
		if n := c.opened.Add(1) - c.closed.Load(); n > 2 {
			t.Errorf("%d connections", n)
		}
	}
	endpoint := scripted(t, func(p *peer) {
		for head := p.head(); head != ""; head = p.head() {
			<-time.After(time.Duration(rand.IntN(300)) * time.Microsecond)
			p.say(ok)
			if rand.IntN(20) == 0 {
				return
			}
		}
	})
	p, all := several(t, endpoint, setup{pool: model.Pool{MaxConnections: 2, MaxPending: 1000, MaxIdle: 1}, observer: observer})
	var wait sync.WaitGroup
	for i := range 12 {
		wait.Go(func() {
			for range 60 {
				ctx, cancel := context.WithCancelCause(t.Context())
				if rand.IntN(3) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(1500))*time.Microsecond, func() { cancel(errOver) })
				}
				response, err := trip(ctx, all[i%len(all)], get("/"), nil)
				if err == nil {
					_, _ = io.ReadAll(response.Body)
					_ = response.Close()
				} else if ctx.Err() == nil {
					t.Errorf("got %v", err)
				}
				cancel(nil)
			}
		})
	}
	wait.Wait()
	p.Release()
	waittest.Until(t, "all places come back, and all is told", func() bool {
		p.queue.mu.Lock()
		defer p.queue.mu.Unlock()
		return p.queue.places == 0 && len(p.queue.waiting) == 0 && p.idle.Load() == 0 && c.opened.Load() == c.closed.Load()
	})
}

func TestWaitingIsBounded(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint, arrived, answer := gated(t)
		transport := open(t, endpoint, setup{pool: model.Pool{MaxConnections: 1, MaxPending: 5}})
		first := inBackground(t.Context(), transport, "/1")
		waittest.Receive(t, "a request", arrived)
		w := watch(transport, model.RouteTimeouts{Response: 30 * time.Millisecond})
		w.watch.Sent(time.Now())
		wantError(t, fails(t.Context(), t, w, get("/2")), pipeline.UpstreamTimeout)
		if n := transport.waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
		answer <- struct{}{}
		answered(t, first)
	})
}

// POST is never done twice, and fails only where the endpoint took it.
func TestRaceOfPosts(t *testing.T) {
	engines(t, func(t *bed) {
		const idle = 3 * time.Millisecond
		var mu sync.Mutex
		done := map[string]int{}
		endpoint := scripted(t, func(p *peer) {
			for n := 0; ; n++ {
				if n > 0 {
					_ = p.SetReadDeadline(time.Now().Add(idle))
				}
				head := p.head()
				if !strings.HasSuffix(head, "\r\n\r\n") {
					return
				}
				if _, err := io.ReadFull(p, make([]byte, 4)); err != nil {
					return
				}
				_, id, _ := strings.Cut(head, "Id: ")
				id, _, _ = strings.Cut(id, "\r\n")
				mu.Lock()
				done[id]++
				mu.Unlock()
				p.say(ok)
			}
		})
		transport := open(t, endpoint, setup{})
		for i := range 200 {
			request := get("/")
			request.Method, request.Body, request.Length = "POST", message.Text("body"), 4
			if i%2 == 0 {
				request.Body = io.NopCloser(strings.NewReader("body"))
			}
			request.Fields.Add("Id", strconv.Itoa(i))
			response, err := trip(t.Context(), transport, request, nil)
			if err == nil {
				drain(t, response)
			} else {
				wantError(t, err, pipeline.UpstreamReset)
			}
			mu.Lock()
			if n := done[strconv.Itoa(i)]; n > 1 {
				t.Errorf("request %d was done %d times", i, n)
			}
			mu.Unlock()
			<-time.After(idle + time.Duration(i%20-10)*10*time.Microsecond)
		}
	})
}

// Bodies go both ways while both sides give up at random; none has a byte of
// another.
func TestChaos(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) { chaotic(p) })
		var c counts
		transport := open(t, endpoint, setup{observer: c.observer(), pool: model.Pool{MaxIdle: 4}})
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range 60 {
					disturbed(t, transport, random)
				}
			})
		}
		wait.Wait()
		transport.Release()
		waittest.Until(t, "all connections are closed", func() bool { return c.closed.Load() == c.opened.Load() })
	})
}

// chaotic answers requests with bodies that name their sum, or leaves.
func chaotic(p *peer) {
	for head := p.head(); head != ""; head = p.head() {
		if rand.IntN(8) == 0 {
			return
		}
		sum := crc32.NewIEEE()
		if _, length, ok := strings.Cut(head, "Content-Length: "); ok {
			n, _ := strconv.ParseInt(length[:strings.IndexByte(length, '\r')], 10, 64)
			if rand.IntN(6) > 0 {
				if _, err := io.CopyN(sum, p, n); err != nil {
					return
				}
				if want := "Sum: " + strconv.Itoa(int(sum.Sum32())) + "\r\n"; !strings.Contains(head, want) {
					p.t.Errorf("a body came otherwise than it was sent: %s", head)
				}
			}
		}
		body := noise(rand.IntN(100 << 10))
		text := fmt.Sprintf("HTTP/1.1 200 OK\r\nSum: %d\r\nContent-Length: %d\r\n\r\n%s", crc32.ChecksumIEEE([]byte(body)), len(body), body)
		if rand.IntN(3) == 0 {
			text = fmt.Sprintf("HTTP/1.1 200 OK\r\nSum: %d\r\nTransfer-Encoding: chunked\r\n\r\n", crc32.ChecksumIEEE([]byte(body)))
			for rest := body; rest != ""; {
				n := min(len(rest), 1+rand.IntN(20<<10))
				text += fmt.Sprintf("%x\r\n%s\r\n", n, rest[:n])
				rest = rest[n:]
			}
			text += "0\r\n\r\n"
		}
		if rand.IntN(8) == 0 {
			p.say(text[:rand.IntN(len(text))])
			if tcp, ok := p.Conn.(*net.TCPConn); ok && rand.IntN(2) == 0 {
				_ = tcp.SetLinger(0)
			}
			return
		}
		p.say(text)
	}
}

func noise(n int) string {
	text := make([]byte, n)
	seed := byte(rand.IntN(256))
	for i := range text {
		seed = seed*5 + 17
		text[i] = seed
	}
	return string(text)
}

// disturbed does an attempt that may be given up.
func disturbed(t testing.TB, transport pipeline.Transport, random *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if random.IntN(5) == 0 {
		time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, func() { cancel(errOver) })
	}
	request := get("/")
	if random.IntN(2) == 0 {
		body := noise(random.IntN(200 << 10))
		request = post(strings.NewReader(body), int64(len(body)))
		request.Fields.Add("Sum", strconv.Itoa(int(crc32.ChecksumIEEE([]byte(body)))))
	}
	response, err := trip(ctx, transport, request, nil)
	if err != nil {
		return
	}
	defer func() { _ = response.Close() }()
	if random.IntN(6) == 0 {
		return
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, response.Body); err != nil {
		return
	}
	want, _ := response.Fields.Find("Sum")
	if got := strconv.Itoa(int(sum.Sum32())); got != want {
		t.Errorf("a body came otherwise than it was sent: %s, want %s", got, want)
	}
}
