package upstream

import (
	"encoding/json"
	"errors"
	"net/netip"
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
func of(text string) *model.Upstream {
	m := &model.Upstream{Name: "up"}
	for one := range strings.FieldsSeq(text) {
		url, weight, _ := strings.Cut(one, "=")
		n, err := strconv.Atoi(weight)
		if err != nil {
			panic(err)
		}
		m.Endpoints = append(m.Endpoints, model.Endpoint{URL: url, Weight: n})
	}
	return m
}

// nowhere connects to nothing.
func nowhere() Connect {
	none := func(*lease.Set, *model.Upstream, model.Endpoint) pipeline.Transport { return nil }
	return Connect{Transport: none, Probe: none}
}

func acquire(t *testing.T, registry *lease.Registry, m *model.Upstream) (*Group, *lease.Set) {
	t.Helper()
	set := registry.NewSet()
	t.Cleanup(set.Release)
	return Acquire(set, m, nowhere(), nil), set
}

// pick is the endpoint of an attempt that ends at once.
func pick(t *testing.T, g *Group) (*Endpoint, error) {
	t.Helper()
	var turn Turn
	now := time.Now()
	if err := g.Begin(&turn, exchange(t), nil, now); err != nil {
		return nil, err
	}
	turn.Dropped(now)
	turn.End()
	return turn.Endpoint, nil
}

// exchange is one that asks for fields, each "Name: value".
func exchange(t *testing.T, fields ...string) *pipeline.Exchange {
	t.Helper()
	request := &message.Request{}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		request.Fields.Add(name, value)
	}
	return pipeline.NewExchange(t.Context(), request, &model.Listener{}, netip.AddrPort{}, time.Time{})
}

func picks(t *testing.T, g *Group, n int) string {
	t.Helper()
	var got strings.Builder
	for range n {
		e, err := pick(t, g)
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(e.URL)
	}
	return got.String()
}

func TestPickIsSmoothAndExact(t *testing.T) {
	for text, want := range map[string]string{
		"a=1":         "aaaa",
		"a=1 b=1":     "abababab",
		"a=3 b=1":     "aabaaaba",
		"a=5 b=1 c=1": "aabacaaaabacaa",
		"a=1 b=0 c=1": "acacac",
		"a=2 a=1 b=1": "aabaaaba",
	} {
		g, _ := acquire(t, new(lease.Registry), of(text))
		if got := picks(t, g, len(want)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestNoEndpoint(t *testing.T) {
	for _, text := range []string{"", "a=0 b=0"} {
		g, _ := acquire(t, new(lease.Registry), of(text))
		_, err := pick(t, g)
		var e *pipeline.Error
		if !errors.As(err, &e) || e.Word != pipeline.NoEndpoint || e.Status != 503 {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestPositionOutlivesSnapshots(t *testing.T) {
	var registry lease.Registry
	before, set := acquire(t, &registry, of("a=3 b=1"))
	if got := picks(t, before, 2); got != "aa" {
		t.Fatalf("got %s", got)
	}
	after, _ := acquire(t, &registry, of("a=3 b=1"))
	set.Release()
	if got := picks(t, after, 6); got != "baaaba" {
		t.Errorf("got %s: the position was lost", got)
	}
}

func TestPositionOutlivesOtherEndpoints(t *testing.T) {
	var registry lease.Registry
	before, set := acquire(t, &registry, of("a=1 b=1 c=1"))
	if got := picks(t, before, 1); got != "a" {
		t.Fatalf("got %s", got)
	}
	after, _ := acquire(t, &registry, of("d=1 a=1 b=1"))
	set.Release()
	got := picks(t, after, 30)
	if !strings.HasPrefix(got, "b") {
		t.Errorf("got %s: b was ahead", got)
	}
	for _, name := range []string{"a", "b", "d"} {
		if n := strings.Count(got, name); n < 9 || n > 11 {
			t.Errorf("%s was taken %d times of 30 in %s", name, n, got)
		}
	}
}

func TestPositionIsBoundedByTheWeightsOfNow(t *testing.T) {
	var registry lease.Registry
	before, set := acquire(t, &registry, of("a=1000 b=999"))
	picks(t, before, 1)
	after, _ := acquire(t, &registry, of("a=1 b=1"))
	set.Release()
	if got := picks(t, after, 8); strings.Count(got, "a") < 3 {
		t.Errorf("got %s: a waits for weights that are gone", got)
	}
}

func TestStateEndsWithItsLastSnapshot(t *testing.T) {
	var registry lease.Registry
	_, first := acquire(t, &registry, of("a=1 b=1"))
	_, second := acquire(t, &registry, of("a=1"))
	first.Release()
	if registry.Idle() == nil {
		t.Error("what the second snapshot has is gone")
	}
	second.Release()
	if err := registry.Idle(); err != nil {
		t.Error(err)
	}
}

func TestStatus(t *testing.T) {
	var registry lease.Registry
	m := of("http://a=3 http://b=1")
	m.Endpoints[1].Version = "v2"
	before, set := acquire(t, &registry, m)
	var turns [3]Turn
	now := time.Now()
	for i := range turns { // a, a, b
		if err := before.Begin(&turns[i], exchange(t), nil, now); err != nil {
			t.Fatal(err)
		}
	}
	turns[0].Failed(now)
	turns[0].End()
	turns[0].End()
	after, _ := acquire(t, &registry, m)
	set.Release()
	text, err := json.Marshal(after.Status(now))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"up","policy":"","panicking":false,"in_flight":0,"repeating":0,"endpoints":[` +
		`{"url":"http://a","weight":3,"available":true,"drained":false,"ejections":0,"active":1,"requests":2,"failures":1},` +
		`{"url":"http://b","weight":1,"version":"v2","available":true,"drained":false,"ejections":0,"active":1,"requests":1,"failures":0}]}`
	if string(text) != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
	if after.Name() != "up" {
		t.Errorf("name %s", after.Name())
	}
	turns[1].End()
	if got := after.Status(now).Endpoints[0].Active; got != 0 {
		t.Errorf("%d active", got)
	}
	empty, _ := acquire(t, new(lease.Registry), of(""))
	if list := empty.Status(now).Endpoints; list == nil || len(list) > 0 {
		t.Errorf("got %v", list)
	}
}

func TestPickFromManyGoroutines(t *testing.T) {
	var registry lease.Registry
	one, _ := acquire(t, &registry, of("a=3 b=1"))
	two, _ := acquire(t, &registry, of("a=3 b=1"))
	var wait sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]int{}
	for i := range 8 {
		g := []*Group{one, two}[i%2]
		wait.Go(func() {
			for range 100 {
				e, err := pick(t, g)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				counts[e.URL]++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if counts["a"] != 600 || counts["b"] != 200 {
		t.Errorf("got %v, want 600 and 200", counts)
	}
}
