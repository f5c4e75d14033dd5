package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// counts is an Observer's tally.
type counts struct{ opened, reused, closed atomic.Int64 }

func (c *counts) observer() Observer {
	return Observer{
		Opened: func(_, _ string) { c.opened.Add(1) },
		Reused: func(_, _ string) { c.reused.Add(1) },
		Closed: func(_, _ string) { c.closed.Add(1) },
	}
}

func (c *counts) String() string {
	return fmt.Sprintf("opened %d, reused %d, closed %d", c.opened.Load(), c.reused.Load(), c.closed.Load())
}

// gated serves requests whose answers wait for a word.
func gated(t testing.TB) (endpoint model.Endpoint, arrived chan string, answer chan struct{}) {
	t.Helper()
	arrived, answer = make(chan string, 100), make(chan struct{})
	endpoint = scripted(t, func(p *peer) {
		for head := p.head(); head != ""; head = p.head() {
			_, path, _ := strings.Cut(head, " ")
			path, _, _ = strings.Cut(path, " ")
			arrived <- path
			<-answer
			p.say(ok)
		}
	})
	t.Cleanup(func() { close(answer) })
	return endpoint, arrived, answer
}

// inBackground does an attempt and gives its error.
func inBackground(ctx context.Context, transport pipeline.Transport, path string) <-chan error {
	done := make(chan error, 1)
	go func() {
		response, err := trip(ctx, transport, get(path), nil)
		if err == nil {
			_, err = io.ReadAll(response.Body)
		}
		done <- err
	}()
	return done
}

// answered waits for an attempt in the background, which must succeed.
func answered(t testing.TB, done <-chan error) {
	t.Helper()
	if err := waittest.Receive(t, "an answer", done); err != nil {
		t.Error(err)
	}
}

func TestObserver(t *testing.T) {
	each(t, func(t *bed) {
		var c counts
		var names sync.Map
		observer := c.observer()
		opened := observer.Opened
		observer.Opened = func(upstream, endpoint string) { names.Store(upstream+" "+endpoint, true); opened(upstream, endpoint) }
		endpoint := scripted(t, answering(ok))
		transport := open(t, endpoint, setup{observer: observer})
		for range 3 {
			ask(t, transport, get("/"))
		}
		if got := c.String(); got != "opened 1, reused 2, closed 0" {
			t.Error(got)
		}
		if _, ok := names.Load("up " + endpoint.URL); !ok {
			t.Error("the observer was told other names")
		}
		transport.Release()
		waittest.Until(t, "the close is told", func() bool { return c.closed.Load() == 1 })
	})
}

func TestUnixEndpoint(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := serveScript(t, "unix", filepath.Join(t.TempDir(), "s"), answering(ok))
		if _, body := ask(t, open(t, endpoint, setup{}), get("/")); body != "ok" {
			t.Errorf("got %q", body)
		}
	})
}

func TestMaxIdle(t *testing.T) {
	each(t, func(t *bed) {
		endpoint, arrived, answer := gated(t)
		var c counts
		transport := open(t, endpoint, setup{pool: model.Pool{MaxIdle: 1}, observer: c.observer()})
		first, second := inBackground(t.Context(), transport, "/1"), inBackground(t.Context(), transport, "/2")
		waittest.Receive(t, "a request", arrived)
		waittest.Receive(t, "a request", arrived)
		answer <- struct{}{}
		answer <- struct{}{}
		if err := errors.Join(waittest.Receive(t, "an answer", first), waittest.Receive(t, "an answer", second)); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "one of the two is closed", func() bool { return c.closed.Load() == 1 })
	})
}

func TestManyIdleByDefault(t *testing.T) {
	each(t, func(t *bed) {
		endpoint, arrived, answer := gated(t)
		var c counts
		transport := open(t, endpoint, setup{observer: c.observer()})
		for range 2 {
			var answers []<-chan error
			for range 5 {
				answers = append(answers, inBackground(t.Context(), transport, "/"))
			}
			for range 5 {
				waittest.Receive(t, "a request", arrived)
			}
			for range 5 {
				answer <- struct{}{}
			}
			for _, done := range answers {
				if err := waittest.Receive(t, "an answer", done); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := c.String(); got != "opened 5, reused 5, closed 0" {
			t.Error(got)
		}
	})
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counts
		transport := openStandard(t, nowhere, setup{pool: model.Pool{IdleTimeout: 55 * time.Second}, observer: c.observer(), dial: piped(t, answering(ok))})
		ask(t, transport, get("/"))
		time.Sleep(54 * time.Second)
		synctest.Wait()
		if got := c.String(); got != "opened 1, reused 0, closed 0" {
			t.Error(got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.String(); got != "opened 1, reused 0, closed 1" {
			t.Error(got)
		}
	})
}

func TestMaxConnectionsAndQueue(t *testing.T) {
	each(t, func(t *bed) {
		endpoint, arrived, answer := gated(t)
		var c counts
		transport := open(t, endpoint, setup{pool: model.Pool{MaxConnections: 1, MaxPending: 2}, observer: c.observer()})
		first := inBackground(t.Context(), transport, "/1")
		waittest.Receive(t, "the first request", arrived)
		waiting := transport.waiting
		ctx, cancel := context.WithCancelCause(t.Context())
		second := inBackground(ctx, transport, "/2")
		waittest.Until(t, "the second waits", func() bool { return waiting() == 1 })
		third := inBackground(t.Context(), transport, "/3")
		waittest.Until(t, "the third waits", func() bool { return waiting() == 2 })

		body := &closeNoted{Reader: strings.NewReader("x")}
		request := post(nil, 1)
		request.Body = body
		e := wantError(t, fails(t.Context(), t, transport, request), pipeline.Overloaded)
		if e.Status != 503 || !e.Unsent || !body.closed.Load() {
			t.Errorf("got %+v, body closed: %v", e, body.closed.Load())
		}

		cancel(errOver)
		if err := waittest.Receive(t, "the end of the second", second); !errors.Is(err, errOver) {
			t.Errorf("got %v", err)
		}
		fourth := inBackground(t.Context(), transport, "/4")
		waittest.Until(t, "the fourth waits", func() bool { return waiting() == 2 })
		for n, done := range []<-chan error{first, third, fourth} {
			if n > 0 {
				if path := waittest.Receive(t, "a request", arrived); path != []string{"", "/3", "/4"}[n] {
					t.Errorf("then came %s", path)
				}
			}
			answer <- struct{}{}
			if err := waittest.Receive(t, "an answer", done); err != nil {
				t.Error(err)
			}
		}
		if got := c.String(); got != "opened 1, reused 2, closed 0" {
			t.Error(got)
		}
	})
}

func TestNobodyWaitsWithoutAQueue(t *testing.T) {
	each(t, func(t *bed) {
		endpoint, arrived, answer := gated(t)
		transport := open(t, endpoint, setup{pool: model.Pool{MaxConnections: 1}})
		first := inBackground(t.Context(), transport, "/1")
		waittest.Receive(t, "the first request", arrived)
		wantError(t, fails(t.Context(), t, transport, get("/2")), pipeline.Overloaded)
		answer <- struct{}{}
		if err := waittest.Receive(t, "an answer", first); err != nil {
			t.Error(err)
		}
	})
}

func TestTunnelTakesAPlace(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			for head := p.head(); head != ""; head = p.head() {
				if strings.Contains(head, "Upgrade: echo") {
					p.say(switching)
					_, _ = io.Copy(io.Discard, p)
					return
				}
				p.say(ok)
			}
		})
		transport := open(t, endpoint, setup{pool: model.Pool{MaxConnections: 1, MaxPending: 1}})
		tunnel := upgrade(t.Context(), t, transport)
		next := inBackground(t.Context(), transport, "/")
		waittest.Until(t, "the next waits", func() bool { return transport.waiting() == 1 })
		tunnel.Close()
		if err := waittest.Receive(t, "an answer", next); err != nil {
			t.Error(err)
		}
	})
}

func TestGateGivesNoPlaceAway(t *testing.T) {
	g := gate{max: 2, maxPending: 100}
	var inside atomic.Int64
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%3)*time.Millisecond+time.Microsecond)
			defer cancel()
			for range 20 {
				if g.enter(ctx) != nil {
					return
				}
				if n := inside.Add(1); n > 2 {
					t.Errorf("%d are inside", n)
				}
				inside.Add(-1)
				g.leave()
			}
		})
	}
	wait.Wait()
	if g.inUse != 0 || g.waiting.Len() != 0 {
		t.Errorf("%d places taken, %d waiting", g.inUse, g.waiting.Len())
	}
}

// A place may come in the moment in which the one that waits gives up.
func TestGatePassesOnWhatComesTooLate(t *testing.T) {
	for range 200 {
		g := gate{max: 1, maxPending: 1}
		if err := g.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.enter(ctx) }()
		waittest.Until(t, "it waits", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.waiting.Len() == 0 {
				return false
			}
			cancel()
			runtime.Gosched()
			g.pass()
			return true
		})
		if waittest.Receive(t, "the end", done) == nil {
			g.leave()
		}
		if g.inUse != 0 {
			t.Fatal("a place is lost")
		}
	}
}

func TestReleaseClosesWhatIsIdleAndDrainsTheRest(t *testing.T) {
	each(t, func(t *bed) {
		endpoint, arrived, answer := gated(t)
		var c counts
		var registry lease.Registry
		set := registry.NewSet()
		transport := by(t.own, Acquire(set, &model.Upstream{Name: "up"}, endpoint, c.observer(), t.engine))
		if err := set.Commit(); err != nil {
			t.Fatal(err)
		}
		first, second := inBackground(t.Context(), transport, "/1"), inBackground(t.Context(), transport, "/2")
		waittest.Receive(t, "a request", arrived)
		waittest.Receive(t, "a request", arrived)
		answer <- struct{}{}
		waittest.Until(t, "one is idle", func() bool { return len(first)+len(second) == 1 })

		set.Release()
		waittest.Until(t, "the idle one is closed", func() bool { return c.closed.Load() == 1 })
		late := inBackground(t.Context(), transport, "/late") // an exchange of the old snapshot
		waittest.Receive(t, "the late request", arrived)
		answer <- struct{}{}
		answer <- struct{}{}
		for _, done := range []<-chan error{first, second, late} {
			if err := waittest.Receive(t, "an answer", done); err != nil {
				t.Error(err)
			}
		}
		waittest.Until(t, "all are closed", func() bool { return c.closed.Load() == c.opened.Load() })
	})
}

func TestReleaseLeavesTunnelsAndBodiesAlone(t *testing.T) {
	each(t, func(t *bed) {
		more := make(chan struct{})
		endpoint := scripted(t, func(p *peer) {
			if head := p.head(); strings.Contains(head, "Upgrade: echo") {
				p.say(switching)
				_, _ = io.Copy(p.Conn, p)
			} else if head != "" {
				p.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
				<-more
				p.say("cd")
				_, _ = p.Peek(1)
			}
		})
		var c counts
		transport := open(t, endpoint, setup{observer: c.observer()})
		tunnel := upgrade(t.Context(), t, transport)
		response, err := trip(t.Context(), transport, get("/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		transport.Release()
		close(more)
		if body := drain(t, response); body != "abcd" {
			t.Errorf("got %q", body)
		}
		waittest.Until(t, "the body's connection is closed", func() bool { return c.closed.Load() == 1 })
		if _, err := io.WriteString(tunnel, "still"); err != nil {
			t.Fatal(err)
		}
		_ = tunnel.CloseWrite()
		if text, err := io.ReadAll(tunnel); string(text) != "still" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		tunnel.Close()
		waittest.Until(t, "all are closed", func() bool { return c.closed.Load() == 2 })
	})
}

// A connection that is made for an attempt that has ended meanwhile becomes
// idle without an attempt.
func TestReleaseClosesConnectionsNobodyWaitsFor(t *testing.T) {
	endpoint := scripted(t, answering(ok))
	var c counts
	proceed := make(chan struct{})
	dialing := make(chan struct{}, 1)
	transport := openStandard(t, endpoint, setup{observer: c.observer(), dial: delayed(dialing, proceed)})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := inBackground(ctx, transport, "/")
	waittest.Receive(t, "a dial", dialing)
	transport.Release()
	cancel(errOver)
	if err := waittest.Receive(t, "the end", done); !errors.Is(err, errOver) {
		t.Errorf("got %v", err)
	}
	close(proceed)
	waittest.Until(t, "it is opened and closed", func() bool { return c.closed.Load() == 1 })
}

func TestAcquireSharesByIdentity(t *testing.T) {
	each(t, func(t *bed) {
		var registry lease.Registry
		endpoint := scripted(t, answering(ok))
		get := func(name string, e model.Endpoint, pool model.Pool) pipeline.Transport {
			set := registry.NewSet()
			t.Cleanup(set.Release)
			return Acquire(set, &model.Upstream{Name: name, Pool: pool}, e, Observer{}, t.engine)
		}
		reweighted, based, moved := endpoint, endpoint, endpoint
		reweighted.Weight, reweighted.Version = 7, "v2"
		based.URL, based.BasePath = endpoint.URL+"/base", "/base"
		moved.Address = "127.0.0.1:1"
		one := get("up", endpoint, model.Pool{})
		for name, same := range map[string]pipeline.Transport{"weight": get("up", reweighted, model.Pool{}), "base path": get("up", based, model.Pool{})} {
			if same != one {
				t.Errorf("another %s is another transport", name)
			}
		}
		for name, other := range map[string]pipeline.Transport{
			"upstream": get("other", endpoint, model.Pool{}), "address": get("up", moved, model.Pool{}), "pool": get("up", endpoint, model.Pool{MaxIdle: 1}),
		} {
			if other == one {
				t.Errorf("another %s is the same transport", name)
			}
		}
		response, err := trip(t.Context(), by(t.own, one), &message.Request{Method: "GET", Path: "/"}, nil) // no observer, no host
		if err != nil {
			t.Fatal(err)
		}
		drain(t, response)
		one.(lease.Releaser).Release()
	})
}
