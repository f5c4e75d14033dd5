package discovery

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"sluice/internal/lease"
	"sluice/internal/model"
)

// journal notes what happens, with the seconds since the test began.
type journal struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func (j *journal) note(format string, arguments ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%v ", time.Since(j.began))+fmt.Sprintf(format, arguments...))
}

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(j.lines, "\n"), strings.Join(want, "\n"))
	}
	j.lines = nil
}

// watch starts to look up users.internal at a zone, on the clock of
// testing/synctest, and notes each look-up and what is told of it.
func watch(t *testing.T, z *zone, refresh time.Duration) (*Names, *journal) {
	t.Helper()
	n, j := prepare(t, z, refresh)
	start(t, n)
	return n, j
}

func start(t *testing.T, n *Names) {
	t.Helper()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Release)
}

// prepare is watch without the start.
func prepare(t *testing.T, z *zone, refresh time.Duration) (*Names, *journal) {
	t.Helper()
	j := &journal{began: time.Now()}
	z.behaves(j.questions(nil))
	m := users()
	m.Refresh = refresh
	n := newNames(m, Observer{
		Failed:    func(m *model.DNS, err error) { j.note("%s failed: %v", m.Name, err) },
		Recovered: func(m *model.DNS) { j.note("%s recovered", m.Name) },
	}, one(t, z).system)
	n.Subscribe(func(a *Answer) { j.note("%s", hosts(a)) })
	return n, j
}

// questions notes each question, and goes on with another behaviour.
func (j *journal) questions(b behaviour) behaviour {
	return func(network string, m, r *dns.Msg) *dns.Msg {
		if m.Question[0].Qtype == dns.TypeA {
			j.note("asked")
		}
		if b != nil {
			return b(network, m, r)
		}
		return r
	}
}

func hosts(a *Answer) string {
	var names []string
	for _, address := range a.Addresses {
		names = append(names, address.Host)
	}
	return strings.Join(names, " ")
}

func TestNamesAreLookedUpAsTheirRecordsSay(t *testing.T) {
	tests := []struct {
		name          string
		ttl           int
		refresh, next time.Duration
	}{
		{"when the records have had their time", 7, 30 * time.Second, 7 * time.Second},
		{"after the refresh", 300, 30 * time.Second, 30 * time.Second},
		{"not within a second", 0, 30 * time.Second, time.Second},
		{"whatever the refresh says", 0, 0, time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, j := watch(t, newZone(t, fmt.Sprintf("users.internal. %d A 10.0.0.1", test.ttl)), test.refresh)
				j.expect(t, "0s asked", "0s 10.0.0.1")
				if a := n.Answer(); a.Err != nil || !a.At.Equal(j.began) || !a.Next.Equal(j.began.Add(test.next)) || !a.Failed.IsZero() {
					t.Errorf("the answer is %+v", a)
				}
				time.Sleep(test.next)
				j.expect(t, test.next.String()+" asked") // and nobody is told of what did not change
				if a := n.Answer(); !a.At.Equal(j.began.Add(test.next)) {
					t.Errorf("the answer is %+v", a)
				}
			})
		})
	}
}

func TestTheShortestTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, j := watch(t, newZone(t, "users.internal. 9 A 10.0.0.1", "users.internal. 4 AAAA 2001:db8::1"), time.Minute)
		time.Sleep(4 * time.Second)
		j.expect(t, "0s asked", "0s 10.0.0.1 2001:db8::1", "4s asked")
	})
}

func TestAFailureKeepsTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone(t, "users.internal. 20 A 10.0.0.1")
		n, j := watch(t, z, 30*time.Second)
		j.expect(t, "0s asked", "0s 10.0.0.1")
		const why = "A records of users.internal.: 10.0.0.1:53: the name server cannot tell: it answers SERVFAIL"
		z.behaves(j.questions(answers(dns.RcodeServerFailure)))
		time.Sleep(30 * time.Second)
		// What is asked twice is asked in two attempts. The failure is told once.
		j.expect(t, "20s asked", "20s asked", "20s users.internal failed: "+why, "25s asked", "25s asked", "30s asked", "30s asked")
		a := n.Answer()
		if hosts(a) != "10.0.0.1" || !a.At.Equal(j.began) || a.Err == nil || a.Err.Error() != why ||
			!a.Failed.Equal(j.began.Add(20*time.Second)) || !a.Next.Equal(j.began.Add(35*time.Second)) {
			t.Errorf("the answer is %+v", a)
		}
		// That there is nothing takes nothing away either.
		z.become(t)
		z.behaves(j.questions(nil))
		time.Sleep(5 * time.Second)
		j.expect(t, "35s asked")
		if a := n.Answer(); hosts(a) != "10.0.0.1" || a.Err == nil || !strings.Contains(a.Err.Error(), "nothing found") {
			t.Errorf("the answer is %+v", a)
		}
		z.become(t, "users.internal. 20 A 10.0.0.2")
		time.Sleep(25 * time.Second)
		j.expect(t, "40s asked", "40s users.internal recovered", "40s 10.0.0.2", "1m0s asked")
		if a := n.Answer(); a.Err != nil || !a.Failed.IsZero() {
			t.Errorf("the answer is %+v", a)
		}
	})
}

func TestFailuresAreSpread(t *testing.T) {
	tests := []struct {
		refresh time.Duration
		random  float64
		want    time.Duration
	}{
		{time.Minute, 0, 3750 * time.Millisecond},
		{time.Minute, 0.9999999999, 6250 * time.Millisecond},
		{2 * time.Second, 0.5, 2 * time.Second},
		{2 * time.Second, 0, 1500 * time.Millisecond},
		{time.Second, 0, time.Second},
	}
	for _, test := range tests {
		n := &Names{model: &model.DNS{Refresh: test.refresh}, resolver: &resolver{system: system{random: func() float64 { return test.random }}}}
		if got := n.wait(0, errNone).Round(time.Millisecond); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// What is known of a part that fails stays, and is looked up again soon.
func TestAPartThatFailsIsLookedUpSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone(t, "users.internal. 20 A 10.0.0.1", "users.internal. 20 AAAA 2001:db8::1")
		_, j := watch(t, z, 30*time.Second)
		j.expect(t, "0s asked", "0s 10.0.0.1 2001:db8::1")
		z.become(t, "users.internal. 20 A 10.0.0.2")
		z.behaves(j.questions(func(_ string, m, r *dns.Msg) *dns.Msg {
			if m.Question[0].Qtype == dns.TypeAAAA {
				return new(dns.Msg).SetRcode(m, dns.RcodeServerFailure)
			}
			return r
		}))
		time.Sleep(25 * time.Second)
		j.expect(t, "20s asked",
			"20s users.internal failed: AAAA records of users.internal.: 10.0.0.1:53: the name server cannot tell: it answers SERVFAIL",
			"20s 10.0.0.2 2001:db8::1", "25s asked")
	})
}

func TestTheFirstLookUp(t *testing.T) {
	for name, b := range map[string]behaviour{"it finds": nil, "it fails": answers(dns.RcodeServerFailure)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held := make(chan struct{})
				z := newZone(t, "users.internal. 20 A 10.0.0.1")
				z.behaves(func(network string, m, r *dns.Msg) *dns.Msg {
					<-held
					if b != nil {
						return b(network, m, r)
					}
					return r
				})
				n := newNames(users(), Observer{}, one(t, z).system)
				start(t, n)
				synctest.Wait()
				select {
				case <-n.First():
					t.Error("it is over before an answer came")
				default:
				}
				if a := n.Answer(); a != nil {
					t.Errorf("the answer is %+v", a)
				}
				close(held)
				<-n.First()
				if a := n.Answer(); (a.Err != nil) != (b != nil) || (len(a.Addresses) > 0) != (b == nil) {
					t.Errorf("the answer is %+v", a)
				}
			})
		})
	}
}

// A release does not wait for a silent server, and tells nobody of it.
func TestReleaseWhileTheServerIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone(t)
		j := &journal{began: time.Now()}
		z.behaves(silent)
		n := newNames(users(), Observer{Failed: func(_ *model.DNS, err error) { j.note("failed: %v", err) }}, one(t, z).system)
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		n.Release()
		<-n.First()
		if took := time.Since(j.began); took != 0 || n.Answer() != nil {
			t.Errorf("after %s the answer is %+v", took, n.Answer())
		}
		j.expect(t)
	})
}

func TestReleaseEndsLookingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, j := watch(t, newZone(t, "users.internal. 5 A 10.0.0.1"), time.Minute)
		j.expect(t, "0s asked", "0s 10.0.0.1")
		n.Release()
		time.Sleep(time.Hour)
		j.expect(t)
		if got := hosts(n.Answer()); got != "10.0.0.1" {
			t.Errorf("the answer has become %q", got)
		}
	})
}

func TestSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone(t, "users.internal. 10 A 10.0.0.1")
		n, j := prepare(t, z, time.Minute)
		var cancelThird func()
		cancelFirst := n.Subscribe(func(a *Answer) { j.note("first: %s", hosts(a)) })
		cancelSecond := n.Subscribe(func(*Answer) { cancelThird() }) // cancels one that would be next
		cancelThird = n.Subscribe(func(a *Answer) { j.note("third: %s", hosts(a)) })
		n.Subscribe(func(a *Answer) {
			if a != n.Answer() {
				t.Error("told of another answer than there is")
			}
		})
		start(t, n)
		j.expect(t, "0s asked", "0s 10.0.0.1", "0s first: 10.0.0.1")

		z.become(t, "users.internal. 10 A 10.0.0.2", "users.internal. 10 A 10.0.0.1")
		time.Sleep(10 * time.Second)
		j.expect(t, "10s asked", "10s 10.0.0.1 10.0.0.2", "10s first: 10.0.0.1 10.0.0.2")

		// Another order is no change.
		z.become(t, "users.internal. 10 A 10.0.0.1", "users.internal. 10 A 10.0.0.2")
		time.Sleep(10 * time.Second)
		j.expect(t, "20s asked")

		cancelFirst()
		cancelFirst() // does nothing
		cancelSecond()
		z.become(t, "users.internal. 10 A 10.0.0.3")
		time.Sleep(10 * time.Second)
		j.expect(t, "30s asked", "30s 10.0.0.3")
	})
}

// Who leaves while all are told takes no other's place.
func TestASubscriberThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone(t, "users.internal. 10 A 10.0.0.1")
		n, j := prepare(t, z, time.Minute)
		var leave func()
		leave = n.Subscribe(func(*Answer) {
			j.note("left")
			leave()
		})
		n.Subscribe(func(*Answer) { j.note("stayed") })
		start(t, n)
		j.expect(t, "0s asked", "0s 10.0.0.1", "0s left", "0s stayed")
		z.become(t, "users.internal. 10 A 10.0.0.2")
		time.Sleep(10 * time.Second)
		j.expect(t, "10s asked", "10s 10.0.0.2", "10s stayed")
	})
}

func TestOtherWeightsAreAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := func(weight int) []string {
			return []string{fmt.Sprintf("_http._tcp.users.internal. 5 SRV 1 %d 80 a.internal.", weight), "a.internal. 60 A 10.0.0.1"}
		}
		z := newZone(t, records(1)...)
		m := service()
		m.Refresh = time.Minute
		n := newNames(m, Observer{}, one(t, z).system)
		var weights []int
		n.Subscribe(func(a *Answer) { weights = append(weights, a.Addresses[0].Weight) })
		start(t, n)
		synctest.Wait()
		z.become(t, records(4)...)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !slices.Equal(weights, []int{1, 4}) {
			t.Errorf("told of weights %v", weights)
		}
	})
}

// In earnest: sockets, the registry of leases, a server that is named.
func TestLeases(t *testing.T) {
	z := newZone(t, "users.internal. 0 A 10.0.0.1")
	m := users()
	m.Resolver, m.Refresh = z.serve(t), time.Minute
	var registry lease.Registry
	first := registry.NewSet()
	n := Acquire(first, m, Observer{})
	asked(t, z) // building starts nothing
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	<-n.First()
	if a := n.Answer(); a.Err != nil || hosts(a) != "10.0.0.1" {
		t.Errorf("the answer is %+v", a)
	}

	second := registry.NewSet()
	same := *m
	if Acquire(second, &same, Observer{}) != n {
		t.Error("equal settings do not share the look-up")
	}
	other := *m
	other.Port++
	if Acquire(second, &other, Observer{}) == n {
		t.Error("other settings share the look-up")
	}
	if err := second.Commit(); err != nil {
		t.Fatal(err)
	}
	first.Release()

	changed := make(chan *Answer, 1)
	n.Subscribe(func(a *Answer) { changed <- a })
	z.become(t, "users.internal. 60 A 10.0.0.2")
	if a := <-changed; hosts(a) != "10.0.0.2" {
		t.Errorf("the answer is %+v", a)
	}
	second.Release()
	if err := registry.Idle(); err != nil {
		t.Error(err)
	}
}
