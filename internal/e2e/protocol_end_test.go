package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"sluice/internal/gatewaytest"
)

// ongoing is what a client has under way while the gateway changes.
type ongoing struct {
	*voice
	events *listened
	chat   *chat
	socket *socket // nil: not over this protocol
	held   *held
	answer <-chan came // to the held request
}

func (s *voice) ongoing(t *testing.T) *ongoing {
	t.Helper()
	o := &ongoing{voice: s, events: s.events(t), chat: s.chat(t, s)}
	o.answer = begin(s, s.request(t, ask{target: "/streams/hold"}))
	o.held = await(t, "the held request", s.held)
	if s.sockets {
		o.socket = s.socket(t)
	}
	return o
}

// goesOn checks that everything does.
func (o *ongoing) goesOn(t *testing.T, after string) {
	t.Helper()
	o.chat.turn(t, after)
	o.events.advances(t, after)
	if o.socket != nil {
		o.socket.turn(t, after)
		o.socket.advances(t, after)
	}
	select {
	case c := <-o.answer:
		t.Fatalf("after %s the held request over %s was over: %+v", after, o.name, c)
	default:
	}
}

// ends ends it in order; the feed has been told to end.
func (o *ongoing) ends(t *testing.T) {
	t.Helper()
	o.chat.end(t)
	close(o.held.free)
	if r := await(t, "the answer to the held request", o.answer).whole(t); r.StatusCode != http.StatusOK || r.body != "held" {
		t.Errorf("the held request over %s got %d %q", o.name, r.StatusCode, r.body)
	}
	streams := []*listened{o.events}
	if o.socket != nil {
		streams = append(streams, o.socket.listened)
	}
	for _, l := range streams {
		if await(t, "the end of "+l.name, l.done); l.err != nil {
			t.Errorf("%s: %v", l.name, l.err)
		}
	}
	if o.socket == nil {
		return
	}
	if _, _, err := o.socket.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("%s was closed with %v", o.socket.name, err)
	}
}

// shorts sends short requests one after another, until it is stopped.
func (s *voice) shorts(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; n++ {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), gatewaytest.Patience)
		r, err := s.draft(bounded, ask{method: http.MethodPost, target: fmt.Sprintf("/echo/%d", n), body: "short"})
		if err != nil {
			cancel()
			return err
		}
		c := try(s, r)
		cancel()
		if c.err != nil || c.StatusCode != http.StatusOK || !strings.Contains(c.body, fmt.Sprintf(`"/echo/%d"`, n)) {
			return fmt.Errorf("request %d over %s: %w, %+v", n, s.name, c.err, c.reply)
		}
	}
	return nil
}

// reloads changes everything around requests and streams of all protocols.
func (p *polyglot) reloads(t *testing.T) {
	var all []*ongoing
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, d := range dialects() {
		o := p.voice(t, d).ongoing(t)
		all = append(all, o)
		running.Go(func() {
			if err := o.shorts(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	failures := func() float64 {
		return p.counted("gateway_errors_total") - p.counted("gateway_errors_total", "error", "no_route")
	}
	before, config := failures(), p.config
	for n, change := range []struct{ what, old, with string }{
		{"a change of routes", "{id: fixed, ", "{id: fixed, timeout: 9s, "},
		{"a change of listeners", "headers: 40", "headers: 50"},
		{"a change of an upstream", "parlour: {", "parlour: {pool: {max_idle_per_endpoint: 3}, "},
		{"the end of a route", "  - {id: streams, match: {path_prefix: /streams}, upstream: parlour}\n", ""},
	} {
		world := fmt.Sprintf("world %d", n+1)
		config = strings.Replace(strings.Replace(config, change.old, change.with, 1), fmt.Sprintf("world %d", n), world, 1)
		p.Load(config)
		for _, o := range all {
			o.goesOn(t, change.what)
			if r := o.do(t, ask{target: "/world"}); r.body != world {
				t.Errorf("after %s %q answers over %s, want %s", change.what, r.body, o.name, world)
			}
		}
	}
	close(p.feed.last)
	for _, o := range all {
		if r := o.do(t, ask{target: "/streams/events"}); r.word() != "no_route" {
			t.Errorf("a route that is gone answers %d over %s", r.StatusCode, o.name)
		}
		o.ends(t)
	}
	stop()
	running.Wait()
	for _, o := range all {
		hangUp(o.transport)
		if o.socket != nil {
			hangUp(o.socket.client)
		}
	}
	for _, o := range all {
		o.leave(t)
	}
	if after := failures(); after != before {
		t.Errorf("%v exchanges failed", after-before)
	}
	p.Load(p.config)
}

// drained is a client of a gateway that stops.
type drained struct {
	*voice
	idle   line // without an exchange
	busy   line // with one whose response has not begun
	chat   *chat
	held   *held
	answer <-chan came
}

func (s *voice) drained(t *testing.T) *drained {
	t.Helper()
	connect := func() line {
		l := s.connect(t, s.polyglot, &s.dialect)
		t.Cleanup(func() { _ = l.Close() }) // the gateway has closed it
		return l
	}
	d := &drained{voice: s, idle: connect(), busy: connect()}
	talking := d.busy
	if !s.many {
		talking = connect()
	}
	if r := try(d.idle, s.request(t, ask{target: "/world"})).whole(t); r.body != "world 0" || r.Close {
		t.Fatalf("%q over %s, close %v", r.body, s.name, r.Close)
	}
	d.answer = begin(d.busy, s.request(t, ask{target: "/streams/hold"}))
	d.held = await(t, "the held request", s.held)
	d.chat = s.chat(t, talking)
	d.chat.turn(t, "begun")
	return d
}

// takesNoMore waits until a connection has no more requests: what was on its way
// before is still served.
func (d *drained) takesNoMore(t *testing.T, l line) {
	t.Helper()
	gatewaytest.WaitFor(t, "a connection over "+d.name+" takes no more requests", func() bool {
		c := try(l, d.request(t, ask{target: "/world"}))
		if c.err == nil && c.body != "world 0" {
			t.Errorf("a late request over %s got %d %q", d.name, c.StatusCode, c.body)
		}
		return c.err != nil
	})
}

// drains stops the gateway, which finishes what it has begun over all protocols,
// and takes nothing new.
func (p *polyglot) drains(t *testing.T) {
	var all []*drained
	for _, d := range dialects() {
		all = append(all, p.voice(t, d).drained(t))
	}
	stopped := make(chan error, 1)
	go func() { stopped <- p.Stop() }()
	for _, d := range all {
		d.takesNoMore(t, d.idle)
		if d.many {
			d.takesNoMore(t, d.busy) // by GOAWAY
		}
		d.chat.turn(t, "still")
	}
	for _, d := range all {
		close(d.held.free)
		r := await(t, "the answer to the held request", d.answer).whole(t)
		if r.StatusCode != http.StatusOK || r.body != "held" || r.Close == d.many {
			t.Errorf("the held request over %s got %d %q, close %v", d.name, r.StatusCode, r.body, r.Close)
		}
		d.chat.turn(t, "last")
		d.chat.end(t)
		if line := d.LogLine(d.held.id); line["status"] != 200.0 || line["error"] != nil && line["error"] != "" || line["protocol"] != d.protocol {
			t.Errorf("the log line is %v", line)
		}
	}
	if err := await(t, "the gateway's end", stopped); err != nil {
		t.Error(err)
	}
}
