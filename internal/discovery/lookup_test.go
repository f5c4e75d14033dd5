package discovery

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"sluice/internal/model"
)

func TestAddresses(t *testing.T) {
	z := newZone(t,
		"users.internal. 60 A 10.0.0.2",
		"users.internal. 60 A 10.0.0.1",
		"users.internal. 20 AAAA 2001:db8::1",
		"users.internal. 20 AAAA ::ffff:10.0.0.1", // an address of IPv4, which is known already
	)
	b := one(t, z)
	b.expect(users(), "10.0.0.1:8080x1 10.0.0.2:8080x1 [2001:db8::1]:8080x1 for 20s")
	asked(t, z, "udp A users.internal.", "udp AAAA users.internal.")
}

func TestOneFamilyIsEnough(t *testing.T) {
	b := one(t, newZone(t, "users.internal. 60 AAAA 2001:db8::1"))
	b.expect(users(), "[2001:db8::1]:8080x1 for 1m0s")
}

func TestAnAliasHoldsAsLongAsItsRecord(t *testing.T) {
	b := one(t, newZone(t,
		"users.internal. 7 CNAME users.cloud.test.",
		"users.cloud.test. 60 A 10.0.0.1",
	))
	b.expect(users(), "10.0.0.1:8080x1 for 7s")
}

func TestATimeWithTheHighestBitIsNone(t *testing.T) {
	z := newZone(t, "users.internal. 60 A 10.0.0.1")
	z.behaves(func(_ string, _, r *dns.Msg) *dns.Msg {
		for _, rr := range r.Answer {
			rr.Header().Ttl = 1 << 31
		}
		return r
	})
	one(t, z).expect(users(), "10.0.0.1:8080x1 for 0s")
}

func TestAnAddressIsFoundWithoutAsking(t *testing.T) {
	z := newZone(t)
	b := one(t, z)
	b.expect(&model.DNS{Name: "10.0.0.9", Port: 80}, "10.0.0.9:80x1 for ever")
	b.expect(&model.DNS{Name: "2001:db8::9", Port: 80}, "[2001:db8::9]:80x1 for ever")
	asked(t, z)
}

func TestANameThatDoesNotExist(t *testing.T) {
	b := newBed(t, "", "nameserver 10.0.0.1\nsearch a.test\n", map[string]*zone{"10.0.0.1:53": newZone(t)})
	b.fails(users(), "users.internal.", "users.internal.a.test.", "(A, AAAA)", "check the name")
	b.fails(service(), "(SRV)", "_http._tcp.users.internal.")
}

func TestServices(t *testing.T) {
	const srv = "_http._tcp.users.internal. 60 SRV "
	tests := []struct {
		name    string
		records []string
		want    string
	}{
		{"the lowest priority alone", []string{srv + "10 3 8001 a.internal.", srv + "20 1 8002 b.internal."}, "10.0.0.1:8001x3 for 30s"},
		{"weights, and none is one", []string{srv + "1 5 8001 a.internal.", srv + "1 0 8002 b.internal."}, "10.0.0.1:8001x5 10.0.0.2:8002x1 for 30s"},
		{"both families of a target", []string{srv + "1 2 80 both.internal."}, "10.0.0.3:80x2 [2001:db8::3]:80x2 for 40s"},
		{"a port for each of one target", []string{srv + "1 1 81 a.internal.", srv + "1 1 82 a.internal."}, "10.0.0.1:81x1 10.0.0.1:82x1 for 30s"},
		{"two targets of one address", []string{srv + "1 2 80 a.internal.", srv + "1 3 80 same.internal."}, "10.0.0.1:80x5 for 30s"},
		{"a target that does not exist", []string{srv + "1 1 80 a.internal.", srv + "1 1 80 none.internal."}, "10.0.0.1:80x1 for 30s"},
		{"a priority without addresses", []string{srv + "1 1 80 none.internal.", srv + "2 1 80 b.internal.", srv + "3 1 80 a.internal."}, "10.0.0.2:80x1 for 50s"},
		{"the record's own time", []string{"_http._tcp.users.internal. 5 SRV 1 1 80 a.internal."}, "10.0.0.1:80x1 for 5s"},
	}
	hosts := []string{
		"a.internal. 30 A 10.0.0.1", "same.internal. 30 A 10.0.0.1", "b.internal. 50 A 10.0.0.2",
		"both.internal. 40 A 10.0.0.3", "both.internal. 45 AAAA 2001:db8::3",
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			one(t, newZone(t, append(hosts, test.records...)...)).expect(service(), test.want)
		})
	}
}

func TestServicesThatCannotBeFound(t *testing.T) {
	const srv = "_http._tcp.users.internal. 60 SRV "
	one(t, newZone(t, srv+"0 0 0 .")).fails(service(), "_http._tcp.users.internal", "there is no such service")
	one(t, newZone(t, srv+"1 1 80 none.internal.")).fails(service(), "no address")
	z := newZone(t, srv+"1 1 80 a.internal.")
	z.behaves(func(_ string, request, r *dns.Msg) *dns.Msg {
		if request.Question[0].Qtype == dns.TypeA {
			return new(dns.Msg).SetRcode(request, dns.RcodeServerFailure)
		}
		return r
	})
	one(t, z).fails(service(), "a.internal.", "SERVFAIL")
}

func TestManyTargets(t *testing.T) {
	var records []string
	for i := range 100 {
		records = append(records,
			fmt.Sprintf("_http._tcp.users.internal. 60 SRV 1 1 80 host-%d.internal.", i),
			fmt.Sprintf("host-%d.internal. 60 A 10.0.1.%d", i, i))
	}
	z := newZone(t, records...)
	z.behaves(func(network string, _, r *dns.Msg) *dns.Msg {
		r.Truncated = network == "udp" && len(r.Answer) > 20
		return r
	})
	if got := len(strings.Fields(one(t, z).found(service()))); got != 102 {
		t.Errorf("found %d addresses, want 100", got-2)
	}
}

func TestSearchList(t *testing.T) {
	const cluster = "nameserver 10.0.0.1\nsearch shop.svc.test svc.test\noptions ndots:5\n"
	all := map[string]string{
		"users.shop.svc.test.": "10.0.0.1", "users.svc.test.": "10.0.0.2", "users.": "10.0.0.3",
		"other.svc.test.": "10.0.0.4", "api.example.test.": "10.0.0.5",
	}
	tests := []struct {
		name, resolv, ask, want string
		asked                   []string // of A
	}{
		{"the first suffix", cluster, "users", "10.0.0.1", []string{"users.shop.svc.test."}},
		{"the next suffix", cluster, "other", "10.0.0.4", []string{"other.shop.svc.test.", "other.svc.test."}},
		{"few dots come last as they are", cluster, "api.example.test", "10.0.0.5", []string{"api.example.test.", "api.example.test.shop.svc.test.", "api.example.test.svc.test."}},
		{"a last dot is the end", cluster, "users.", "10.0.0.3", []string{"users."}},
		{"dots enough come first as they are", "nameserver 10.0.0.1\nsearch svc.test\n", "api.example.test", "10.0.0.5", []string{"api.example.test."}},
		{"a domain is a suffix", "nameserver 10.0.0.1\ndomain svc.test\n", "users", "10.0.0.2", []string{"users.svc.test."}},
		{"the root is no suffix", "nameserver 10.0.0.1\nsearch .\n", "users", "10.0.0.3", []string{"users."}},
		{"without any it is the machine's domain", "nameserver 10.0.0.1\n", "other", "10.0.0.4", []string{"other.svc.test."}},
	}
	var records []string
	for name, address := range all {
		records = append(records, name+" 60 A "+address)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			z := newZone(t, records...)
			b := newBed(t, "", test.resolv, map[string]*zone{"10.0.0.1:53": z})
			b.hostname = func() (string, error) { return "machine.svc.test", nil }
			b.expect(&model.DNS{Name: test.ask, Port: 80}, test.want+":80x1 for 1m0s")
			var names []string
			for _, q := range z.questions() {
				if name, ok := strings.CutPrefix(q, "udp A "); ok {
					names = append(names, name)
				}
			}
			if got, want := strings.Join(names, " "), strings.Join(test.asked, " "); got != want {
				t.Errorf("asked for %s, want %s", got, want)
			}
		})
	}
}

// A server that cannot tell of one suffix may know the next; one that is silent
// will be so for all of them.
func TestSearchListOverFailures(t *testing.T) {
	failing := func(b behaviour) behaviour {
		return func(network string, request, r *dns.Msg) *dns.Msg {
			if strings.HasSuffix(request.Question[0].Name, ".a.test.") {
				return b(network, request, r)
			}
			return r
		}
	}
	for _, test := range []struct {
		name string
		b    behaviour
		want string
	}{
		{"it says so", answers(dns.RcodeServerFailure), "10.0.0.2:80x1 for 1m0s"},
		{"it is silent", silent, "error: A records of users.a.test.: 10.0.0.1:53: no answer from the name server within 1s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z := newZone(t, "users.a.test. 60 A 10.0.0.1", "users.b.test. 60 A 10.0.0.2")
				z.behaves(failing(test.b))
				b := newBed(t, "", "nameserver 10.0.0.1\nsearch a.test b.test\noptions timeout:1\n", map[string]*zone{"10.0.0.1:53": z})
				b.expect(&model.DNS{Name: "users", Port: 80}, test.want)
			})
		})
	}
}

func TestHosts(t *testing.T) {
	z := newZone(t, "a.internal. 60 A 10.0.0.9", "_x._tcp.test. 60 SRV 1 1 80 b.internal.", "c.internal. 60 A 10.0.0.8")
	b := newBed(t, strings.Join([]string{
		"10.0.0.1 a.internal A2 # the first",
		"2001:db8::1\ta.internal",
		"::ffff:10.0.0.1 a.internal",
		"#10.0.0.7 c.internal",
		"10.0.0 c.internal",
		"10.0.0.7",
		"10.0.0.2 B.Internal",
	}, "\n"), "nameserver 10.0.0.1\n", map[string]*zone{"10.0.0.1:53": z})
	for name, want := range map[string]string{
		"a.internal":  "10.0.0.1:80x1 [2001:db8::1]:80x1 for ever",
		"A.internal.": "10.0.0.1:80x1 [2001:db8::1]:80x1 for ever",
		"a2":          "10.0.0.1:80x1 for ever",
		"b.internal":  "10.0.0.2:80x1 for ever",
	} {
		b.expect(&model.DNS{Name: name, Port: 80}, want)
	}
	asked(t, z)
	b.fails(&model.DNS{Name: "first", Port: 80}, "first.") // it is in a comment
	asked(t, z, "udp A first.", "udp AAAA first.")
	b.expect(&model.DNS{Name: "_x._tcp.test"}, "10.0.0.2:80x1 for 1m0s") // targets, too
	asked(t, z, "udp SRV _x._tcp.test.")
	b.expect(&model.DNS{Name: "c.internal", Port: 80}, "10.0.0.8:80x1 for 1m0s")
}

func TestAResolverIsAskedAsItIs(t *testing.T) {
	system, own := newZone(t, "users.a.test. 60 A 10.0.0.1"), newZone(t, "users. 60 A 10.0.0.2")
	b := newBed(t, "10.0.0.3 users\n", "nameserver 10.0.0.1\nsearch a.test\n", map[string]*zone{"10.0.0.1:53": system, "dns.internal:5353": own})
	b.expect(&model.DNS{Name: "users", Port: 80, Resolver: "dns.internal:5353"}, "10.0.0.2:80x1 for 1m0s")
	asked(t, system)
	b.fails(&model.DNS{Name: "users", Port: 80, Resolver: "dns.internal:1"}, "A records of users.: dns.internal:1: ", "refused")
}

func TestAddressesWithoutAWayAreLeftOut(t *testing.T) {
	b := newBed(t, "", "nameserver 10.0.0.1\n", map[string]*zone{"10.0.0.1:53": newZone(t,
		"users.internal. 60 A 10.0.0.1", "users.internal. 60 AAAA 2001:db8::1", "six.internal. 60 AAAA 2001:db8::1",
	)})
	b.routed = func(_ context.Context, a netip.Addr) bool { return a.Is4() }
	b.expect(users(), "10.0.0.1:8080x1 for 1m0s")
	// Where there is no other, its connections will say what is wrong.
	b.expect(&model.DNS{Name: "six.internal", Port: 80}, "[2001:db8::1]:80x1 for 1m0s")
}

// What was known of a part that fails still counts.
func TestAPartThatFails(t *testing.T) {
	fails := func(kind uint16, name string) behaviour {
		return func(_ string, request, r *dns.Msg) *dns.Msg {
			if q := request.Question[0]; q.Qtype == kind && q.Name == name {
				return new(dns.Msg).SetRcode(request, dns.RcodeServerFailure)
			}
			return r
		}
	}
	const why = ": 10.0.0.1:53: the name server cannot tell: it answers SERVFAIL"
	z := newZone(t, "users.internal. 60 A 10.0.0.1")
	b := one(t, z)
	r := &resolver{system: b.system}
	expect := func(m *model.DNS, want string) {
		t.Helper()
		if got := text(r.lookup(t.Context(), m)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}

	z.behaves(fails(dns.TypeAAAA, "users.internal."))
	expect(users(), "10.0.0.1:8080x1 for 1m0s") // nothing is known to be missing
	z.behaves(nil)
	z.become(t, "users.internal. 60 A 10.0.0.2", "users.internal. 30 AAAA 2001:db8::1")
	expect(users(), "10.0.0.2:8080x1 [2001:db8::1]:8080x1 for 30s")
	z.become(t, "users.internal. 60 A 10.0.0.3")
	z.behaves(fails(dns.TypeAAAA, "users.internal."))
	for range 2 {
		expect(users(), "10.0.0.3:8080x1 [2001:db8::1]:8080x1 for 30s error: AAAA records of users.internal."+why)
	}
	// A look-up that finds nothing changes nothing of that either.
	z.become(t)
	z.behaves(nil)
	if got := text(r.lookup(t.Context(), users())); !strings.HasPrefix(got, "error: nothing found") {
		t.Errorf("got %s", got)
	}
	z.become(t, "users.internal. 60 A 10.0.0.3")
	z.behaves(fails(dns.TypeAAAA, "users.internal."))
	expect(users(), "10.0.0.3:8080x1 [2001:db8::1]:8080x1 for 30s error: AAAA records of users.internal."+why)
	z.behaves(nil)
	expect(users(), "10.0.0.3:8080x1 for 1m0s") // now it is known that it is gone

	z.become(t, "_http._tcp.users.internal. 60 SRV 1 1 80 a.internal.", "_http._tcp.users.internal. 60 SRV 1 1 80 b.internal.",
		"a.internal. 60 A 10.0.0.1", "b.internal. 60 A 10.0.0.2")
	z.behaves(fails(dns.TypeA, "b.internal."))
	expect(service(), "10.0.0.1:80x1 for 1m0s error: A records of b.internal."+why) // it is asked again soon
	z.behaves(nil)
	expect(service(), "10.0.0.1:80x1 10.0.0.2:80x1 for 1m0s")
	z.behaves(fails(dns.TypeSRV, "_http._tcp.users.internal."))
	expect(service(), "10.0.0.1:80x1 10.0.0.2:80x1 for 1m0s error: SRV records of _http._tcp.users.internal."+why)
	z.behaves(answers(dns.RcodeServerFailure))
	expect(service(), "error: SRV records of _http._tcp.users.internal."+why)
}

// What is no longer asked for is forgotten: targets come and go by their names.
func TestWhatIsKnownDoesNotGrow(t *testing.T) {
	z := newZone(t)
	r := &resolver{system: one(t, z).system}
	for i := range 20 {
		z.become(t, fmt.Sprintf("_http._tcp.users.internal. 60 SRV 1 1 80 pod-%d.internal.", i), fmt.Sprintf("pod-%d.internal. 60 A 10.0.0.1", i))
		if _, _, err := r.lookup(t.Context(), service()); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.known) != 3 { // SRV, A, AAAA
		t.Errorf("knows %v", r.known)
	}
}

func TestALookUpEndsWithItsContext(t *testing.T) {
	z := newZone(t)
	z.behaves(silent)
	address := z.serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	b := one(t, z)
	b.system.dial = machine().dial
	done := make(chan error, 1)
	go func() {
		_, _, err := (&resolver{system: b.system}).lookup(ctx, &model.DNS{Name: "users.internal", Port: 80, Resolver: address})
		done <- err
	}()
	for len(z.questions()) == 0 { // it waits for the server
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 4*time.Second { // a server has 5 s
		t.Errorf("it took %s", took)
	}
}
