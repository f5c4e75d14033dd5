package upstream

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
)

// Whatever happens at once, each attempt is counted once and none stays under way.
func TestStatisticsUnderConcurrency(t *testing.T) {
	var registry lease.Registry
	everything := []func(*model.Upstream){
		breaker(model.ScopeEndpoint, time.Millisecond),
		outlier(3, func(o *model.OutlierDetection) { o.BaseEjection = time.Millisecond }), slowStart(time.Millisecond),
	}
	one, _ := acquire(t, &registry, of("a=1 b=1 c=1", everything...))
	two, _ := acquire(t, &registry, of("c=2 a=1 b=1 d=1", everything...))
	var mu sync.Mutex
	var begun, failed int64
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			x, dice, mine, bad := exchange(t), rand.New(rand.NewPCG(1, uint64(i))), int64(0), int64(0)
			for n := range 500 {
				now := time.Now()
				var turn Turn
				if err := []*Group{one, two}[n%2].Begin(&turn, x, nil, now); err != nil {
					turn.End()
					continue // all are open, or out
				}
				mine++
				switch dice.IntN(5) {
				case 0:
					turn.Failed(now)
					bad++
				case 1:
					turn.Answered(503, now)
					turn.Broke(now)
					bad++
				case 2:
					turn.Answered(200, now)
					turn.Broke(now)
					bad++
				case 3:
					turn.Answered(200, now)
				default:
					turn.Dropped(now)
				}
				turn.End()
				turn.End()
			}
			mu.Lock()
			defer mu.Unlock()
			begun, failed = begun+mine, failed+bad
		})
	}
	running.Wait()
	var requests, failures int64
	for _, s := range two.Status(time.Now()).Endpoints {
		requests, failures = requests+s.Requests, failures+s.Failures
		if s.Active != 0 {
			t.Errorf("%s has %d under way", s.URL, s.Active)
		}
	}
	if requests != begun || failures != failed || begun == 0 {
		t.Errorf("%d begun and %d counted; %d failed and %d counted", begun, requests, failed, failures)
	}
}

var policies = []string{model.RoundRobin, model.LeastConnections, model.PowerOfTwo, model.RandomChoice, model.ConsistentHash, model.StickyCookie}

func TestAnAttemptAllocatesNothing(t *testing.T) {
	for _, scope := range []string{model.ScopeUpstream, model.ScopeEndpoint} {
		for _, name := range policies {
			g := busy(t, name, scope, 12)
			x, now := exchange(t, user(1), "Cookie: sluice=0011223344556677"), time.Now()
			if scope == model.ScopeEndpoint { // one is open
				for range 2 {
					permit, _, _ := g.members.Load().endpoints[3].breaker.Allow(now)
					permit.Done(now, true, 0)
				}
				if !g.barred(&g.look(now).usable, now) {
					t.Fatal("none is open")
				}
			}
			var turn Turn
			n := testing.AllocsPerRun(200, func() {
				if err := g.Begin(&turn, x, nil, now); err != nil {
					t.Fatal(err)
				}
				turn.Answered(200, now)
				turn.End()
			})
			if n > 0 {
				t.Errorf("%s, breaker of the %s: %v allocations", name, scope, n)
			}
		}
	}
}
