package discovery

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"sluice/internal/model"
)

// sockets is a machine whose zones are served by UDP and TCP in earnest.
func sockets(t *testing.T, resolv string, zones map[string]*zone) *bed {
	t.Helper()
	b := newBed(t, "", resolv, nil)
	places := map[string]string{}
	for address, z := range zones {
		places[address] = z.serve(t)
	}
	dial := machine().dial
	b.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, places[address])
	}
	return b
}

func TestWhatIsTruncatedComesByTCP(t *testing.T) {
	z := newZone(t, "users.internal. 60 A 10.0.0.1", "users.internal. 60 A 10.0.0.2")
	z.behaves(func(network string, _, r *dns.Msg) *dns.Msg {
		if network == "udp" {
			r.Truncated = true
			r.Answer = r.Answer[:len(r.Answer)/2]
		}
		return r
	})
	b := sockets(t, "nameserver 10.0.0.1\n", map[string]*zone{"10.0.0.1:53": z})
	b.expect(users(), "10.0.0.1:8080x1 10.0.0.2:8080x1 for 1m0s")
	asked(t, z, "tcp A users.internal.", "tcp AAAA users.internal.", "udp A users.internal.", "udp AAAA users.internal.")
}

func TestALargeDatagram(t *testing.T) {
	var records []string
	for _, last := range strings.Fields("1 2 3 4 5 6 7 8 9") {
		for _, name := range []string{"a", "b", "c", "d"} {
			records = append(records, "users.internal. 60 A 10.0."+string(name[0]-'a'+'0')+"."+last)
		}
	}
	z := newZone(t, records...)
	b := sockets(t, "nameserver 10.0.0.1\n", map[string]*zone{"10.0.0.1:53": z})
	if got := len(strings.Fields(b.found(users()))); got != 36+2 { // over 512 bytes
		t.Errorf("found %d, want 36", got-2)
	}
	asked(t, z, "udp A users.internal.", "udp AAAA users.internal.")
}

func TestAllByTCP(t *testing.T) {
	z := newZone(t, "users.internal. 60 A 10.0.0.1")
	b := sockets(t, "nameserver 10.0.0.1\noptions use-vc\n", map[string]*zone{"10.0.0.1:53": z})
	b.expect(users(), "10.0.0.1:8080x1 for 1m0s")
	asked(t, z, "tcp A users.internal.", "tcp AAAA users.internal.")
}

func TestAServerThatIsNotThere(t *testing.T) {
	var config net.ListenConfig
	gone, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := gone.LocalAddr().String()
	gone.Close()
	b := newBed(t, "", "", nil)
	b.dial = machine().dial
	b.fails(&model.DNS{Name: "users.internal", Port: 80, Resolver: address}, "records of users.internal.: "+address, "refused")
}

func TestAServerThatDoesNotKnowEDNS(t *testing.T) {
	for _, code := range []int{dns.RcodeFormatError, dns.RcodeNotImplemented} {
		z := newZone(t, "users.internal. 60 A 10.0.0.1")
		z.behaves(func(_ string, request, r *dns.Msg) *dns.Msg {
			if request.IsEdns0() != nil {
				return new(dns.Msg).SetRcode(request, code)
			}
			return r
		})
		one(t, z).expect(users(), "10.0.0.1:8080x1 for 1m0s")
	}
}

// What a server may say that is no answer: the next one is asked, and if there is
// none the error tells.
func TestNoAnswers(t *testing.T) {
	other := new(dns.Msg).SetQuestion("other.internal.", dns.TypeA)
	tests := []struct {
		name string
		b    behaviour
		want string
	}{
		{"it fails", answers(dns.RcodeServerFailure), "it answers SERVFAIL"},
		{"it refuses", answers(dns.RcodeRefused), "it answers REFUSED"},
		{"it knows only its own", func(_ string, _, r *dns.Msg) *dns.Msg {
			r.Answer, r.RecursionAvailable, r.Rcode = nil, false, dns.RcodeSuccess
			return r
		}, "it does not ask others"},
		{"it answers something else", func(_ string, m, _ *dns.Msg) *dns.Msg {
			r := new(dns.Msg).SetReply(other)
			r.Id = m.Id
			return r
		}, "answers another question"},
		{"it answers another kind", func(_ string, _, r *dns.Msg) *dns.Msg {
			r.Question[0].Qtype = dns.TypeMX
			return r
		}, "answers another question"},
		{"it asks", func(_ string, _, r *dns.Msg) *dns.Msg {
			r.Response = false
			return r
		}, "answers another question"},
		{"it answers nothing in particular", func(_ string, _, r *dns.Msg) *dns.Msg {
			r.Question = nil
			return r
		}, "answers another question"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bad, good := newZone(t, "users.internal. 60 A 10.0.0.1"), newZone(t, "users.internal. 60 A 10.0.0.2")
			bad.behaves(test.b)
			zones := map[string]*zone{"10.0.0.1:53": bad, "10.0.0.2:53": good}
			newBed(t, "", "nameserver 10.0.0.1\nnameserver 10.0.0.2\n", zones).expect(users(), "10.0.0.2:8080x1 for 1m0s")
			asked(t, bad, "udp A users.internal.", "udp AAAA users.internal.")
			newBed(t, "", "nameserver 10.0.0.1\n", zones).fails(users(), "records of users.internal.: 10.0.0.1:53: ", test.want)
			asked(t, bad, "udp A users.internal.", "udp A users.internal.", "udp AAAA users.internal.", "udp AAAA users.internal.") // two attempts
		})
	}
}

func TestThatThereIsNoSuchNameIsAnAnswer(t *testing.T) {
	first, second := newZone(t), newZone(t, "users.internal. 60 A 10.0.0.2")
	newBed(t, "", "nameserver 10.0.0.1\nnameserver 10.0.0.2\n", map[string]*zone{"10.0.0.1:53": first, "10.0.0.2:53": second}).fails(users(), "nothing found")
	asked(t, second)
}

func TestAnswersThatAreNoMessages(t *testing.T) {
	b := newBed(t, "", "nameserver 10.0.0.1\noptions attempts:1\n", nil)
	b.dial = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			if _, err := (&dns.Conn{Conn: far}).ReadMsg(); err == nil {
				far.Write([]byte("\x00\x04oops"))
			}
		}()
		return near, nil
	}
	b.fails(users(), "10.0.0.1:53", "dns:")
}

// Each server has its time, and each its number of attempts.
func TestSilentServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newZone(t), newZone(t)
		first.behaves(silent)
		second.behaves(silent)
		b := newBed(t, "", "nameserver 10.0.0.1\nnameserver 10.0.0.2\noptions timeout:3 attempts:2\n", map[string]*zone{"10.0.0.1:53": first, "10.0.0.2:53": second})
		began := time.Now()
		b.fails(users(), "10.0.0.2:53: no answer from the name server within 3s")
		if took := time.Since(began); took != 12*time.Second {
			t.Errorf("it took %s, want twice two servers' 3s", took)
		}
		if got := len(first.questions()) + len(second.questions()); got != 8 {
			t.Errorf("asked %d questions, want 8", got)
		}
		began = time.Now()
		b.fails(&model.DNS{Name: "users.internal", Port: 80, Resolver: "10.0.0.1:53"}, "within 5s")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %s, want 10s", took)
		}
	})
}

// The time of a server is that of connecting, too.
func TestAServerThatLetsNobodyIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "", "nameserver 10.0.0.1\noptions timeout:2 attempts:1 use-vc\n", nil)
		b.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		b.fails(users(), "10.0.0.1:53: no answer from the name server within 2s")
	})
}

func TestServersTakeTurns(t *testing.T) {
	for resolv, want := range map[string]string{"": "111", "options rotate\noptions timeout:1\n": "121"} {
		var mu sync.Mutex
		var turns strings.Builder
		note := func(turn string) behaviour {
			return func(_ string, m, r *dns.Msg) *dns.Msg {
				mu.Lock()
				defer mu.Unlock()
				if m.Question[0].Qtype == dns.TypeA {
					turns.WriteString(turn)
				}
				return r
			}
		}
		first, second := newZone(t, "users.internal. 60 A 10.0.0.1"), newZone(t, "users.internal. 60 A 10.0.0.1")
		first.behaves(note("1"))
		second.behaves(note("2"))
		b := newBed(t, "", "nameserver 10.0.0.1\nnameserver 10.0.0.2\n"+resolv, map[string]*zone{"10.0.0.1:53": first, "10.0.0.2:53": second})
		r := &resolver{system: b.system}
		for range 3 {
			if _, _, err := r.lookup(t.Context(), users()); err != nil {
				t.Fatal(err)
			}
		}
		if turns.String() != want {
			t.Errorf("%q: asked in the order %s, want %s", resolv, turns.String(), want)
		}
	}
}
