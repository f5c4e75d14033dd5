package upstream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// of describes an upstream as "a=3 b=1".
func of(text string, changes ...func(*model.Upstream)) *model.Upstream {
	m := &model.Upstream{Name: "up"}
	for one := range strings.FieldsSeq(text) {
		url, weight, _ := strings.Cut(one, "=")
		n, err := strconv.Atoi(weight)
		if err != nil {
			panic(err)
		}
		m.Endpoints = append(m.Endpoints, model.Endpoint{URL: url, Address: url, Weight: n})
	}
	for _, change := range changes {
		change(m)
	}
	return m
}

// policy chooses the endpoints in another way.
func policy(name string) func(*model.Upstream) {
	return func(m *model.Upstream) {
		m.Balancer = model.Balancer{Policy: name}
		switch name {
		case model.ConsistentHash:
			m.Balancer.HashOn = &model.Key{Source: model.KeyHeader, Name: "X-User"}
		case model.StickyCookie:
			m.Balancer.Cookie = "sluice"
		}
	}
}

func slowStart(d time.Duration) func(*model.Upstream) {
	return func(m *model.Upstream) { m.SlowStart = d }
}

func panicBelow(share float64) func(*model.Upstream) {
	return func(m *model.Upstream) { m.PanicThreshold = share }
}

// nowhere connects to nothing.
func nowhere() Connect {
	none := func(*lease.Set, *model.Upstream, model.Endpoint) pipeline.Transport { return nil }
	return Connect{Transport: none, Probe: none}
}

func acquire(t testing.TB, registry *lease.Registry, m *model.Upstream) (*Group, *lease.Set) {
	t.Helper()
	return acquireTold(t, registry, m, nowhere(), nil)
}

// acquireTold is the group of a snapshot that serves.
func acquireTold(t testing.TB, registry *lease.Registry, m *model.Upstream, connect Connect, observer Observer) (*Group, *lease.Set) {
	t.Helper()
	set := registry.NewSet()
	t.Cleanup(set.Release)
	g := Acquire(set, m, connect, observer)
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	return g, set
}

// seeded makes what a group does at random the same in each run. It is for one
// goroutine.
func seeded(g *Group) *Group {
	g.shared.random = rand.New(rand.NewPCG(1, 2)).IntN
	return g
}

// events is what an observer was told, as text.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) observe(event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := string(event.Kind) + " " + event.Endpoint
	if event.From != "" || event.To != "" {
		text += " " + event.From + ">" + event.To
	}
	e.list = append(e.list, text+": "+event.Reason)
}

// take returns what was told since the last call.
func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	return list
}

func (e *events) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := e.take(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// exchange is one that asks for fields, each "Name: value".
func exchange(t testing.TB, fields ...string) *pipeline.Exchange {
	t.Helper()
	request := &message.Request{}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		request.Fields.Add(name, value)
	}
	return pipeline.NewExchange(t.Context(), request, &model.Listener{}, netip.AddrPort{}, time.Time{})
}

// begin starts an attempt.
func begin(t testing.TB, g *Group, x *pipeline.Exchange, now time.Time, tried ...*Endpoint) *Turn {
	t.Helper()
	turn := new(Turn)
	if err := g.Begin(turn, x, tried, now); err != nil {
		t.Fatal(err)
	}
	return turn
}

// answered is the endpoint of an attempt that is answered at once.
func answered(t testing.TB, g *Group, status int, now time.Time) *Endpoint {
	t.Helper()
	turn := begin(t, g, exchange(t), now)
	turn.Answered(status, now)
	turn.End()
	return turn.Endpoint
}

// fail has attempts at an endpoint fail, by way of whatever comes up before.
func fail(t testing.TB, g *Group, url string, n int, now time.Time) {
	t.Helper()
	for i := 0; n > 0; i++ {
		if i > 1000 {
			t.Fatalf("%s gets no attempt", url)
		}
		turn := begin(t, g, exchange(t), now)
		if turn.Endpoint.URL == url {
			turn.Failed(now)
			n--
		} else {
			turn.Dropped(now)
		}
		turn.End()
	}
}

// pick is the endpoint of an attempt that ends at once.
func pick(t testing.TB, g *Group) (*Endpoint, error) {
	t.Helper()
	return pickAt(g, exchange(t), time.Now())
}

func pickAt(g *Group, x *pipeline.Exchange, now time.Time, tried ...*Endpoint) (*Endpoint, error) {
	var turn Turn
	if err := g.Begin(&turn, x, tried, now); err != nil {
		return nil, err
	}
	turn.Dropped(now)
	turn.End()
	return turn.Endpoint, nil
}

// picks are the endpoints of attempts one after the other.
func picks(t testing.TB, g *Group, n int) string {
	t.Helper()
	return picksAt(t, g, n, time.Now())
}

func picksAt(t testing.TB, g *Group, n int, now time.Time) string {
	t.Helper()
	x := exchange(t)
	var got strings.Builder
	for range n {
		e, err := pickAt(g, x, now)
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(e.URL)
	}
	return got.String()
}

// wantWord wants an error of the pipeline, and returns it.
func wantWord(t *testing.T, err error, word pipeline.Word) pipeline.Error {
	t.Helper()
	var e *pipeline.Error
	if !errors.As(err, &e) || e.Word != word || e.Status != 503 {
		t.Fatalf("got %v, want %s", err, word)
	}
	return *e
}

// endpoint is the endpoint of a group with a URL.
func endpoint(t testing.TB, g *Group, url string) *Endpoint {
	t.Helper()
	for _, e := range g.members.Load().endpoints {
		if e.URL == url {
			return e
		}
	}
	t.Fatalf("no endpoint %s", url)
	return nil
}

// statusOf is an endpoint's status as "healthy ejected drained", what it is of these,
// and "out" if it gets nothing.
func statusOf(t testing.TB, g *Group, url string, now time.Time) string {
	t.Helper()
	for _, s := range g.Status(now).Endpoints {
		if s.URL != url {
			continue
		}
		words := []string{s.Health}
		if s.Ejected != nil {
			words = append(words, "ejected")
		}
		if s.Drained {
			words = append(words, "drained")
		}
		if !s.Available {
			words = append(words, "out")
		}
		return strings.TrimSpace(strings.Join(words, " "))
	}
	return "none"
}

// errBad is what a check that fails finds.
var errBad = errors.New("status 500")

// near wants a count to be within five standard deviations of a binomial
// distribution: a right one fails once in two million times.
func near(t testing.TB, what string, got, n int, share float64) {
	t.Helper()
	mean := float64(n) * share
	if d := float64(got) - mean; d*d > 25*mean*(1-share) {
		t.Errorf("%s: %d of %d, which is far from %.2f%%", what, got, n, 100*share)
	}
}

func user(i int) string { return fmt.Sprintf("X-User: user-%d", i) }
