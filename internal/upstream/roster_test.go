package upstream

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"sluice/internal/discovery"
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// server is a name server with one name, whose records may live for no time.
type server struct {
	address string

	mu        sync.Mutex
	addresses []string      // none: there is no such name
	hold      chan struct{} // answers wait for it; nil: they do not
}

func (s *server) becomes(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = addresses
}

func (s *server) answer(w dns.ResponseWriter, m *dns.Msg) {
	s.mu.Lock()
	addresses, hold := s.addresses, s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	r := new(dns.Msg).SetReply(m)
	if len(addresses) == 0 {
		r.Rcode = dns.RcodeNameError
	}
	for _, address := range addresses {
		if m.Question[0].Qtype == dns.TypeA {
			r.Answer = append(r.Answer, &dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.ParseIP(address)})
		}
	}
	_ = w.WriteMsg(r) // who asked may be gone
}

// newServer starts a name server whose name has these addresses.
func newServer(t *testing.T, addresses ...string) *server {
	t.Helper()
	packets, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: packets.LocalAddr().String(), addresses: addresses}
	started, ended := make(chan struct{}), make(chan error, 1)
	d := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(s.answer), NotifyStartedFunc: func() { close(started) }}
	go func() { ended <- d.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		if err := errors.Join(d.Shutdown(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return s
}

// named is an upstream that is looked up at the server, every second.
func (s *server) named(changes ...func(*model.Upstream)) *model.Upstream {
	m := of("", changes...)
	m.DNS = &model.DNS{Name: "users.internal", Port: 80, Scheme: "http", Refresh: time.Second, Resolver: s.address}
	m.Timeouts.Connect = 20 * time.Second
	return m
}

// members are the endpoints of a group, by URL.
func members(g *Group) []string {
	var list []string
	if r := g.members.Load(); r != nil {
		for _, e := range r.endpoints {
			list = append(list, strings.TrimPrefix(e.URL, "http://"))
		}
	}
	return list
}

// settles waits until the endpoints of a group are these.
func settles(t *testing.T, g *Group, want ...string) {
	t.Helper()
	waittest.Until(t, "endpoints "+strings.Join(want, ", "), func() bool { return slices.Equal(members(g), want) })
}

func TestEndpointsComeAndGo(t *testing.T) {
	s := newServer(t, "10.0.0.1", "10.0.0.2")
	var told events
	var registry lease.Registry
	g, set := acquireTold(t, &registry, s.named(slowStart(time.Hour), asking(func(h *model.HealthCheck) { h.Interval = time.Hour }), outlier(2)), new(well).connect(), told.observe)
	// The first attempt waits for the first answer.
	turn := begin(t, g, exchange(t), time.Now())
	if got := turn.Endpoint.Endpoint; got.URL != "http://10.0.0.1:80" || got.Address != "10.0.0.1:80" || got.Host != "users.internal" || got.Weight != 1 {
		t.Errorf("endpoint %+v", got)
	}
	now := time.Now()
	fail(t, g, "http://10.0.0.2:80", 2, now)
	if got := shareOf(t, g, "http://10.0.0.1:80", 10); got != 100 {
		t.Errorf("the one that is left gets %d%%", got)
	}
	s.becomes("10.0.0.2", "10.0.0.3", "10.0.0.1")
	settles(t, g, "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")
	if got := statusOf(t, g, "http://10.0.0.2:80", now); got != "unknown ejected out" {
		t.Errorf("what stays is %s", got)
	}
	if got := g.Status(now).Endpoints[0]; got.Requests == 0 || got.Active != 1 {
		t.Errorf("what stays: %+v", got)
	}
	if got := shareOf(t, g, "http://10.0.0.3:80", 150); got > 1 {
		t.Errorf("who comes gets %d%% at once", got)
	}
	s.becomes("10.0.0.3")
	settles(t, g, "10.0.0.3:80")
	// What is under way at an endpoint that is gone ends well.
	turn.Answered(200, now)
	turn.End()
	told.expect(t, "ejected http://10.0.0.2:80: 2 failures in a row")
	// A look-up that fails changes nothing, and is told of once.
	s.becomes()
	waittest.Until(t, "a failure", func() bool { told.mu.Lock(); defer told.mu.Unlock(); return len(told.list) > 0 })
	if list := told.take(); len(list) != 1 || !strings.HasPrefix(list[0], "lookup failed users.internal: ") {
		t.Errorf("told %q", list)
	}
	if e, err := pick(t, g); err != nil || e.URL != "http://10.0.0.3:80" {
		t.Errorf("got %v, %v", e, err)
	}
	s.becomes("10.0.0.4")
	settles(t, g, "10.0.0.4:80")
	told.expect(t, "lookup recovered users.internal: ")
	set.Release()
	waittest.Until(t, "nothing is held", func() bool { return registry.Idle() == nil })
}

// The authority of what was looked up has a port where that is not its scheme's.
func TestTheAuthorityOfWhatIsLookedUp(t *testing.T) {
	for _, c := range []struct {
		scheme string
		port   int
		want   string
	}{
		{"http", 80, "users.internal"}, {"http", 443, "users.internal:443"}, {"http", 8080, "users.internal:8080"},
		{"https", 443, "users.internal"}, {"https", 80, "users.internal:80"},
	} {
		m := &model.DNS{Name: "users.internal", Scheme: c.scheme}
		if got := endpointsOf(m, []discovery.Address{{Host: "::1", Port: c.port, Weight: 1}})[0].Host; got != c.want {
			t.Errorf("%s, port %d: %s, want %s", c.scheme, c.port, got, c.want)
		}
	}
}

// A name that there is not leaves no endpoint, until there is.
func TestANameThatThereIsNot(t *testing.T) {
	s := newServer(t)
	g, _ := acquire(t, new(lease.Registry), s.named())
	if !g.Available(nil, time.Now()) {
		t.Error("before the first answer nobody knows better")
	}
	_, err := pick(t, g)
	if e := wantWord(t, err, pipeline.NoEndpoint); e.Error() != "no_endpoint: upstream up has no endpoint" {
		t.Errorf("got %v", e.Error())
	}
	if g.Available(nil, time.Now()) || len(g.Status(time.Now()).Endpoints) != 0 || g.Breakers(time.Now()) != nil || g.Drain("x", true) {
		t.Error("there is something")
	}
	s.becomes("10.0.0.1")
	settles(t, g, "10.0.0.1:80")
	if _, err := pick(t, g); err != nil {
		t.Error(err)
	}
}

// Whoever waits for the first answer goes when its exchange ends, and when it takes
// too long.
func TestTheFirstAnswerIsNotAwaitedForEver(t *testing.T) {
	s := newServer(t, "10.0.0.1")
	hold := make(chan struct{})
	defer close(hold)
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	m := s.named()
	g, _ := acquire(t, new(lease.Registry), m)
	ctx, leave := context.WithCancelCause(t.Context())
	x := exchange(t)
	x.Init(ctx, "")
	left := make(chan error)
	go func() { _, err := pickAt(g, x, time.Now()); left <- err }()
	leave(pipeline.ErrClientGone)
	if err := <-left; !errors.Is(err, pipeline.ErrClientGone) {
		t.Errorf("got %v", err)
	}
	m.Timeouts.Connect = time.Millisecond // a second at least
	_, err := pick(t, g)
	wantWord(t, err, pipeline.NoEndpoint)
}

// A snapshot with other settings takes over what is known of the endpoints, however
// soon the old one goes.
func TestWhatIsLookedUpOutlivesSnapshots(t *testing.T) {
	s := newServer(t, "10.0.0.1", "10.0.0.2")
	var registry lease.Registry
	g, set := acquire(t, &registry, s.named())
	settles(t, g, "10.0.0.1:80", "10.0.0.2:80")
	g.Drain("http://10.0.0.2:80", true)
	for i := range 50 {
		next, nextSet := acquire(t, &registry, s.named(slowStart(time.Duration(i+1)*time.Second)))
		set.Release()
		if e, err := pick(t, next); err != nil || e.URL != "http://10.0.0.1:80" {
			t.Fatalf("after %d reloads: %v, %v", i+1, e, err)
		}
		g, set = next, nextSet
	}
	settles(t, g, "10.0.0.1:80", "10.0.0.2:80")
	set.Release()
	waittest.Until(t, "nothing is held", func() bool { return registry.Idle() == nil })
	g.roster.follow() // an answer that has come meanwhile
	if err := registry.Idle(); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// A snapshot that is only built looks nothing up and leaves nothing behind.
func TestABuildLooksNothingUp(t *testing.T) {
	s := newServer(t, "10.0.0.1")
	var registry lease.Registry
	set := registry.NewSet()
	g := Acquire(set, s.named(asking()), nowhere(), nil)
	set.Release()
	if err := registry.Idle(); err != nil || members(g) != nil {
		t.Errorf("%v, members %q", err, members(g))
	}
	// Nor does it beside one that serves.
	_, serving := acquire(t, &registry, s.named())
	plan := registry.NewSet()
	Acquire(plan, s.named(slowStart(time.Minute)), nowhere(), nil)
	plan.Release()
	serving.Release()
	waittest.Until(t, "nothing is held", func() bool { return registry.Idle() == nil })
}

// Endpoints come and go while they are asked for, and while snapshots do.
func TestChangesOfTheRosterUnderLoad(t *testing.T) {
	s := newServer(t, "10.0.0.1")
	var registry lease.Registry
	g, set := acquire(t, &registry, s.named(breaker(model.ScopeEndpoint, time.Second)))
	settles(t, g, "10.0.0.1:80")
	stop := make(chan struct{})
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			x := exchange(t)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := pickAt(g, x, time.Now()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, addresses := range [][]string{{"10.0.0.1", "10.0.0.2"}, {"10.0.0.2"}} {
		s.becomes(addresses...)
		waittest.Until(t, "the change", func() bool { return len(members(g)) == len(addresses) })
		_, other := acquire(t, &registry, s.named(slowStart(time.Second)))
		other.Release()
	}
	close(stop)
	running.Wait()
	set.Release()
	waittest.Until(t, "nothing is held", func() bool { return registry.Idle() == nil })
}
