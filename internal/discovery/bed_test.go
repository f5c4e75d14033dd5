package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"sluice/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zone is what a name server knows, how it behaves, and what it was asked.
type zone struct {
	mu      sync.Mutex
	records map[question][]dns.RR
	behave  behaviour
	asked   []string // as "udp A name."
}

// behaviour makes something else of an answer; nil is silence.
type behaviour func(network string, request, answer *dns.Msg) *dns.Msg

// newZone returns the zone of records in the form of zone files.
func newZone(t *testing.T, records ...string) *zone {
	t.Helper()
	z := &zone{}
	z.become(t, records...)
	return z
}

// become makes these the zone's records, instead of those it had.
func (z *zone) become(t *testing.T, records ...string) {
	t.Helper()
	parsed := map[question][]dns.RR{}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		q := question{rr.Header().Name, rr.Header().Rrtype}
		parsed[q] = append(parsed[q], rr)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records = parsed
}

// behaves makes the zone's server behave in another way; nil: as it should.
func (z *zone) behaves(b behaviour) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.behave = b
}

// questions returns what was asked since the last call, sorted.
func (z *zone) questions() []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	asked := z.asked
	z.asked = nil
	slices.Sort(asked)
	return asked
}

// reply answers a request; nil is silence.
func (z *zone) reply(network string, m *dns.Msg) *dns.Msg {
	r, b := z.answer(network, m)
	if b == nil {
		return r
	}
	return b(network, m, r)
}

// answer makes the answer that the records give, and tells how the server behaves
// now.
func (z *zone) answer(network string, m *dns.Msg) (*dns.Msg, behaviour) {
	z.mu.Lock()
	defer z.mu.Unlock()
	q := m.Question[0]
	z.asked = append(z.asked, network+" "+dns.TypeToString[q.Qtype]+" "+q.Name)
	r := new(dns.Msg).SetReply(m)
	r.RecursionAvailable = true
	name := q.Name
	for alias := z.records[question{name, dns.TypeCNAME}]; len(alias) > 0; alias = z.records[question{name, dns.TypeCNAME}] {
		r.Answer = append(r.Answer, alias...)
		name = alias[0].(*dns.CNAME).Target
	}
	r.Answer = append(r.Answer, z.records[question{name, q.Qtype}]...)
	if len(r.Answer) == 0 && !z.has(name) {
		r.Rcode = dns.RcodeNameError
	}
	return r, z.behave
}

func (z *zone) has(name string) bool {
	for q := range z.records {
		if q.name == name {
			return true
		}
	}
	return false
}

// serve serves the zone by UDP and TCP, and returns where.
func (z *zone) serve(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	var packets net.PacketConn
	var listener net.Listener
	for range 20 { // the port of the one may be taken for the other
		var err error
		if packets, err = config.ListenPacket(t.Context(), "udp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if listener, err = config.Listen(t.Context(), "tcp", packets.LocalAddr().String()); err == nil {
			break
		}
		packets.Close()
	}
	if listener == nil {
		t.Fatal("no port is free for both")
	}
	for network, server := range map[string]*dns.Server{"udp": {PacketConn: packets}, "tcp": {Listener: listener}} {
		server.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
			if r := z.reply(network, m); r != nil {
				_ = w.WriteMsg(r) // who asked may be gone
			}
		})
		started, ended := make(chan struct{}), make(chan error, 1)
		server.NotifyStartedFunc = func() { close(started) }
		go func() { ended <- server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() {
			if err := errors.Join(server.Shutdown(), <-ended); err != nil {
				t.Error(err)
			}
		})
	}
	return packets.LocalAddr().String()
}

// pipe connects to a server of the zone that is no socket, so that testing/synctest
// knows when all are waiting. It must be closed.
func (z *zone) pipe(network string) net.Conn {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		conn := &dns.Conn{Conn: far}
		for {
			m, err := conn.ReadMsg()
			if err != nil {
				return
			}
			if r := z.reply(network, m); r != nil {
				_ = conn.WriteMsg(r) // who asked may be gone
			}
		}
	}()
	return near
}

// bed is a machine whose name servers are zones.
type bed struct {
	system
	t *testing.T
}

// newBed returns a machine with the contents of its two files, and with zones by
// the addresses of their servers.
func newBed(t *testing.T, hosts, resolv string, zones map[string]*zone) *bed {
	t.Helper()
	dir := t.TempDir()
	b := &bed{t: t, system: system{
		hosts:    filepath.Join(dir, "hosts"),
		resolv:   filepath.Join(dir, "resolv.conf"),
		hostname: func() (string, error) { return "machine", nil },
		routed:   func(context.Context, netip.Addr) bool { return true },
		random:   func() float64 { return 0.5 },
		dial: func(_ context.Context, network, address string) (net.Conn, error) {
			z := zones[address]
			if z == nil {
				return nil, fmt.Errorf("connection to %s refused", address)
			}
			return z.pipe(network), nil
		},
	}}
	b.write(b.system.hosts, hosts)
	b.write(b.resolv, resolv)
	return b
}

// one is a machine with one name server and nothing special.
func one(t *testing.T, z *zone) *bed {
	t.Helper()
	return newBed(t, "", "nameserver 10.0.0.1\n", map[string]*zone{"10.0.0.1:53": z})
}

func (b *bed) write(path, text string) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// found looks a name up once, with a resolver that remembers nothing, and returns
// what was found as text.
func (b *bed) found(m *model.DNS) string {
	b.t.Helper()
	return text((&resolver{system: b.system}).lookup(b.t.Context(), m))
}

func (b *bed) expect(m *model.DNS, want string) {
	b.t.Helper()
	if got := b.found(m); got != want {
		b.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// fails looks up what cannot be found, and wants the error to tell so much.
func (b *bed) fails(m *model.DNS, want ...string) {
	b.t.Helper()
	got := b.found(m)
	if !strings.HasPrefix(got, "error: ") {
		b.t.Errorf("no error but %s", got)
	}
	for _, part := range want {
		if !strings.Contains(got, part) {
			b.t.Errorf("%q does not say %q", got, part)
		}
	}
}

func asked(t *testing.T, z *zone, want ...string) {
	t.Helper()
	if got := z.questions(); !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
}

// users is a name whose records tell no port.
func users() *model.DNS { return &model.DNS{Name: "users.internal", Port: 8080} }

// service is a name of SRV records.
func service() *model.DNS { return &model.DNS{Name: "_http._tcp.users.internal"} }

// text is a look-up as "HOST:PORTxWEIGHT … for TTL" and "error: …".
func text(addresses []Address, ttl time.Duration, err error) string {
	var parts []string
	for _, a := range addresses {
		parts = append(parts, fmt.Sprintf("%sx%d", net.JoinHostPort(a.Host, fmt.Sprint(a.Port)), a.Weight))
	}
	if len(parts) > 0 {
		parts = append(parts, "for "+strings.Replace(ttl.String(), forever.String(), "ever", 1))
	}
	if err != nil {
		parts = append(parts, "error: "+err.Error())
	}
	return strings.Join(parts, " ")
}

func answers(code int) behaviour {
	return func(_ string, request, _ *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(request, code) }
}

func silent(string, *dns.Msg, *dns.Msg) *dns.Msg { return nil }
