package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"sluice/internal/gatewaytest"
)

// nameServer answers for SRV records of one name, whose targets are all on this
// machine.
type nameServer struct {
	address string

	mu     sync.Mutex
	ports  []string
	broken bool // it answers that it has failed
	asked  int  // for SRV records
}

const srvName = "_http._tcp.users.internal."

func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &nameServer{address: packets.LocalAddr().String()}
	started, ended := make(chan struct{}), make(chan error, 1)
	server := &dns.Server{
		PacketConn: packets, NotifyStartedFunc: func() { close(started) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
			_ = w.WriteMsg(n.answer(m)) // who asked may be gone
		}),
	}
	go func() { ended <- server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *nameServer) answer(m *dns.Msg) *dns.Msg {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := m.Question[0]
	srv := q.Name == srvName && q.Qtype == dns.TypeSRV
	if srv {
		n.asked++
	}
	var records []string
	switch {
	case n.broken:
		return new(dns.Msg).SetRcode(m, dns.RcodeServerFailure)
	case srv:
		for _, port := range n.ports {
			records = append(records, fmt.Sprintf("%s 1 IN SRV 0 1 %s here.internal.", srvName, port))
		}
	case q.Name == "here.internal." && q.Qtype == dns.TypeA:
		records = append(records, "here.internal. 1 IN A 127.0.0.1")
	}
	r := new(dns.Msg).SetReply(m)
	r.RecursionAvailable = true
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		r.Answer = append(r.Answer, rr)
	}
	return r
}

// tells has the records lead to these endpoints.
func (n *nameServer) tells(endpoints ...*httptest.Server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports = nil
	for _, e := range endpoints {
		_, port, _ := strings.Cut(e.Listener.Addr().String(), ":")
		n.ports = append(n.ports, port)
	}
}

func (n *nameServer) breaks(broken bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = broken
}

// questions is how often SRV records were asked for.
func (n *nameServer) questions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// TestNamesUnderLoad has the endpoints of a name come and go under load: those
// that are there are used within the life of the records, those that are gone get
// nothing any more and may end, a name server that fails changes nothing, and no
// request fails.
func TestNamesUnderLoad(t *testing.T) {
	serve := func(name string) *httptest.Server {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Endpoint", name)
		}))
		t.Cleanup(server.Close)
		return server
	}
	a, b, c := serve("a"), serve("b"), serve("c")
	names := startNameServer(t)
	names.tells(a, b)
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams: {up: {dns: {name: %q, refresh: 1s, resolver: %q}}}
routes: [{id: up, match: {path_prefix: /}, upstream: up}]
`, strings.TrimSuffix(srvName, "."), names.address))
	load := startLoad(t, 100, gets(t, gw.URL("web")+"/x"))
	served := func(want ...string) {
		t.Helper()
		gatewaytest.WaitFor(t, fmt.Sprintf("the upstream has the endpoints %v", want), func() bool { return len(statusOfUpstream(t, gw, "up").Endpoints) == len(want) })
		_ = load.after(time.Now(), 20) // whatever had begun is over
		by := shares(load.after(time.Now(), 20*len(want)))
		var got []string
		for name, n := range by {
			if got = append(got, name); n < 10 {
				t.Errorf("an endpoint has no share: %v", by)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("answers come from %v, not %v", got, want)
		}
	}
	served("a", "b")
	names.tells(a, b, c)
	served("a", "b", "c")
	names.tells(c)
	served("c")
	a.Close() // nobody asks them any more
	b.Close()
	names.breaks(true)
	before := names.questions()
	gatewaytest.WaitFor(t, "it is asked again and fails", func() bool { return names.questions() > before+1 })
	served("c")
	d := serve("d")
	names.tells(c, d)
	names.breaks(false)
	served("c", "d")
	load.none()
}
