package proxy_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/proxy"
	"sluice/internal/upstream"
)

// share is one side of a split, as a test has it.
type share struct {
	version   string
	weight    int
	endpoints int
}

// A number of endpoints that stands for a name that is looked up.
const (
	unfound    = -1 // the name server is not there
	unanswered = -2 // it says nothing
)

// divided is a split over transports that stand in: of each side, by its version.
type divided struct {
	*gateway
	groups map[string]*upstream.Group
}

// divide makes a split. A side without a transport answers.
func divide(t *testing.T, registry *lease.Registry, route *model.Route, transports map[string]roundTripper, shares ...share) *divided {
	t.Helper()
	set := registry.NewSet()
	if route.Split == nil {
		route.Split = &model.Split{}
	}
	route.Split.ForceHeader = "X-Canary-Version"
	d := &divided{groups: map[string]*upstream.Group{}}
	var sides []proxy.Side
	for _, one := range shares {
		m := &model.Upstream{Name: "shop-" + one.version}
		if one.endpoints < 0 {
			m.DNS = &model.DNS{Name: "shop.internal", Port: 80, Scheme: "http", Refresh: time.Hour, Resolver: nameServer(t, one.endpoints)}
			m.Timeouts.Connect = time.Minute
		} else {
			m.Endpoints = endpointsOf(one.endpoints)
		}
		for i := range m.Endpoints {
			m.Endpoints[i].URL = "http://" + one.version + "-" + itoa(i)
		}
		m.Balancer = model.Balancer{Policy: model.ConsistentHash, HashOn: &model.Key{Source: model.KeyHeader, Name: "X-User-Id"}}
		transport := transports[one.version]
		if transport == nil {
			transport = always(200)
		}
		group := upstream.Acquire(set, m, upstream.Connect{Transport: func(*lease.Set, *model.Upstream, model.Endpoint) pipeline.Transport {
			return onContext{transport}
		}}, nil)
		d.groups[one.version] = group
		sides = append(sides, proxy.Side{Group: group, Version: one.version, Weight: one.weight})
		route.Split.Sides = append(route.Split.Sides, model.Side{Upstream: m, Version: one.version, Weight: one.weight})
	}
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Release)
	d.gateway = &gateway{t: t, route: route, group: d.groups[shares[0].version], Handler: proxy.New(route, sides, proxy.Gateway{Pseudonym: pseudonym})}
	return d
}

// always is a transport that answers at once with a status.
type always int

func (a always) RoundTrip(context.Context, *message.Request, func(int, message.Fields)) (*message.Response, error) {
	return &message.Response{Status: int(a), Length: message.Unknown}, nil
}

// version forwards an exchange of a user, "" for nobody, and returns where it went.
func (d *divided) version(user string, fields ...string) string {
	d.t.Helper()
	if user != "" {
		fields = append(fields, "X-User-Id: "+user)
	}
	x := exchange(d.t.Context(), get("/", fields...))
	if err := d.Serve(x); err != nil {
		d.t.Fatal(err)
	}
	if got := x.Response.Fields.Get(message.XBackendVersion); got != x.Version {
		d.t.Fatalf("the client is told of %q, the log of %q", got, x.Version)
	}
	return x.Version
}

// byUser is a split that keeps users where they are.
func byUser() *model.Route {
	return &model.Route{ID: "r", Split: &model.Split{Sticky: &model.Key{Source: model.KeyHeader, Name: "X-User-Id"}}}
}

// TestVersionThatIsAskedFor wins, over the identity and over no share at all.
func TestVersionThatIsAskedFor(t *testing.T) {
	d := divide(t, new(lease.Registry), byUser(), nil, share{"v1", 100, 1}, share{"v2", 0, 1})
	for range 200 {
		if got := d.version("someone", "X-Canary-Version: v2"); got != "v2" {
			t.Fatalf("asked for v2, got %s", got)
		}
		if got := d.version("someone", "X-Canary-Version: v9"); got != "v1" {
			t.Fatalf("asked for what is not there, got %s", got)
		}
		if got := d.version("someone", "X-Canary-Version: "); got != "v1" {
			t.Fatalf("asked for nothing, got %s", got)
		}
	}
}

// failingOver is a split whose sides stand in for each other.
func failingOver(edits ...func(r *model.Retry)) *model.Route {
	route := retrying(edits...)
	route.Split = &model.Split{Failover: true}
	return route
}

// TestFailoverOfASideWithoutEndpoints: what would have gone there goes to the
// others, and whoever asks for it gets nothing.
func TestFailoverOfASideWithoutEndpoints(t *testing.T) {
	route := byUser()
	route.Split.Failover = true
	d := divide(t, new(lease.Registry), route, nil, share{"v1", 60, 1}, share{"v2", 40, 0})
	for i := range 200 {
		if got := d.version("user-" + itoa(i)); got != "v1" {
			t.Fatalf("user %d went to %s", i, got)
		}
	}
	d.fail(exchange(t.Context(), get("/", "X-Canary-Version: v2")), pipeline.NoEndpoint, 503)

	without := byUser()
	d = divide(t, new(lease.Registry), without, nil, share{"v1", 1, 0}, share{"v2", 1, 1})
	failed := 0
	for i := range 200 {
		if d.Serve(exchange(t.Context(), get("/", "X-User-Id: "+itoa(i)))) != nil {
			failed++
		}
	}
	if failed == 0 || failed == 200 {
		t.Errorf("without failover %d of 200 failed", failed)
	}

	d = divide(t, new(lease.Registry), failingOver(), nil, share{"v1", 1, 0}, share{"v2", 0, 1})
	d.fail(exchange(t.Context(), get("/")), pipeline.NoEndpoint, 503) // who has no share gets none

	both := failingOver()
	d = divide(t, new(lease.Registry), both, nil, share{"v1", 1, 0}, share{"v2", 1, 0})
	for range 20 {
		x := exchange(t.Context(), get("/"))
		d.fail(x, pipeline.NoEndpoint, 503)
		if x.Upstream != "shop-v1" && x.Upstream != "shop-v2" || x.Attempts != 0 {
			t.Errorf("it is told of %q, after %d attempts", x.Upstream, x.Attempts)
		}
	}
	d.idleAll()
}

// idleAll checks that nothing is left on any side.
func (d *divided) idleAll() {
	d.t.Helper()
	for _, group := range d.groups {
		g := *d.gateway
		g.group = group
		g.idle()
	}
}

// TestFailoverWithinAnExchange tries the endpoints of a side first, then those of
// another, and never leaves the version that was asked for.
func TestFailoverWithinAnExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			fields   []string
			failover bool
			attempts int // that are allowed
			done     int
			version  string
			status   int
		}{
			"it moves":              {nil, true, 9, 3, "v2", 200},
			"it has no more tries":  {nil, true, 2, 2, "v1", 503},
			"it is not wanted":      {nil, false, 4, 4, "v1", 503},
			"the version is forced": {[]string{"X-Canary-Version: v1"}, true, 4, 4, "v1", 503},
		} {
			bad, good := &steps{list: []step{answers(0, 503)}}, &steps{list: []step{answers(0, 200)}}
			route := failingOver(upTo(c.attempts))
			route.Split.Failover = c.failover
			d := divide(t, new(lease.Registry), route, map[string]roundTripper{"v1": bad, "v2": good}, share{"v1", 1_000_000_000, 2}, share{"v2", 1, 2})
			x := exchange(t.Context(), get("/", c.fields...))
			if err := d.Serve(x); err != nil {
				t.Fatal(err)
			}
			if x.Attempts != c.done || x.Version != c.version || x.Response.Status != c.status || x.Upstream != "shop-"+c.version {
				t.Errorf("%s: %d attempts, then %d of %s at %s", name, x.Attempts, x.Response.Status, x.Version, x.Upstream)
			}
			d.idleAll()
		}
	})
}

// TestFailoverWhereAllFail ends, with what the last one said.
func TestFailoverWhereAllFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &steps{list: []step{answers(0, 503)}}, &steps{list: []step{answers(0, 503)}}
		d := divide(t, new(lease.Registry), failingOver(upTo(7)), map[string]roundTripper{"v1": first, "v2": second}, share{"v1", 1, 2}, share{"v2", 1, 2})
		x := exchange(t.Context(), get("/"))
		if err := d.Serve(x); err != nil || x.Response.Status != 503 || x.Attempts != 7 {
			t.Errorf("%v after %d attempts", err, x.Attempts)
		}
		if len(first.asked) < 2 || len(second.asked) < 2 {
			t.Errorf("%d and %d were asked", len(first.asked), len(second.asked))
		}
		d.idleAll()
	})
}

// TestFailoverKeepsToTheBudget of the side that it goes to.
func TestFailoverKeepsToTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &steps{list: []step{answers(0, 503)}}, &steps{list: []step{answers(0, 200)}}
		d := divide(t, new(lease.Registry), failingOver(), map[string]roundTripper{"v1": bad, "v2": good}, share{"v1", 1_000_000_000, 1}, share{"v2", 1, 1})
		budget := d.groups["v2"].Budget()
		for range 3 {
			budget.Take(0)
		}
		x := exchange(t.Context(), get("/"))
		if err := d.Serve(x); err != nil || x.Response.Status != 503 || x.Attempts != 1 {
			t.Errorf("%v after %d attempts", err, x.Attempts)
		}
		for range 3 {
			budget.Give()
		}
		d.idleAll()
	})
}

// nameServer is the address of one that does not answer.
func nameServer(t *testing.T, how int) string {
	t.Helper()
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if how == unfound {
		_ = socket.Close()
	} else {
		t.Cleanup(func() { _ = socket.Close() })
	}
	return socket.LocalAddr().String()
}

// TestFailoverOfASideThatIsNotFound: nobody knows that a side has no endpoint before
// its name was looked up. Who came there then goes on to another, within its budget.
func TestFailoverOfASideThatIsNotFound(t *testing.T) {
	t.Run("the first attempt", func(t *testing.T) {
		d := divide(t, new(lease.Registry), failingOver(), nil, share{"v1", 1_000_000_000, unfound}, share{"v2", 1, 1})
		x := exchange(t.Context(), get("/"))
		if err := d.Serve(x); err != nil || x.Response.Status != 200 || x.Attempts != 1 || x.Upstream != "shop-v2" || x.Version != "v2" {
			t.Errorf("%v after %d attempts at %s %s", err, x.Attempts, x.Upstream, x.Version)
		}
		d.idleAll()
	})
	for name, taken := range map[string]int{"a repetition": 0, "a repetition without a budget": 3} {
		t.Run(name, func(t *testing.T) {
			shares := []share{{"v1", 1_000_000_000_000_000, 1}, {"v2", 1_000_000_000, unfound}, {"v3", 1, 1}}
			d := divide(t, new(lease.Registry), failingOver(), map[string]roundTripper{"v1": always(503)}, shares...)
			budget := d.groups["v3"].Budget()
			for range taken {
				budget.Take(0)
			}
			x := exchange(t.Context(), get("/"))
			err := d.Serve(x)
			switch {
			case taken > 0:
				wantError(t, err, pipeline.NoEndpoint, 503)
			case err != nil || x.Response.Status != 200 || x.Attempts != 2 || x.Version != "v3":
				t.Errorf("%v after %d attempts at %s", err, x.Attempts, x.Version)
			}
			for range taken {
				budget.Give()
			}
			d.idleAll()
		})
	}
}

// TestNoFailoverForAClientThatLeft while a side was looked up.
func TestNoFailoverForAClientThatLeft(t *testing.T) {
	d := divide(t, new(lease.Registry), failingOver(), nil, share{"v1", 1_000_000_000, unanswered}, share{"v2", 1, 1})
	ctx, leave := context.WithCancelCause(t.Context())
	x := exchange(ctx, get("/"))
	leave(pipeline.ErrClientGone)
	if err := d.Serve(x); !errors.Is(err, pipeline.ErrClientGone) || x.Attempts != 0 || x.Version != "v1" {
		t.Errorf("%v after %d attempts at %s", err, x.Attempts, x.Version)
	}
	d.idleAll()
}
