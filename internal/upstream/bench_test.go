package upstream

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
)

// busy is a group of n healthy endpoints of three weights, with all that can be
// counted.
func busy(t testing.TB, name, scope string, n int) *Group {
	t.Helper()
	m := of("", policy(name), breaker(scope, time.Hour, func(b *model.CircuitBreaker) { b.MinRequests, b.ErrorRate = 20, .5 }), outlier(5, func(o *model.OutlierDetection) { o.MinRequests, o.ErrorRate = 20, .5 }), slowStart(time.Minute), panicBelow(.3))
	m.Health = &model.HealthCheck{}
	for i := range n {
		m.Endpoints = append(m.Endpoints, model.Endpoint{URL: fmt.Sprintf("http://10.0.0.%d:8080", i), Address: fmt.Sprintf("10.0.0.%d:8080", i), Weight: 1 + i%3})
	}
	set := new(lease.Registry).NewSet()
	t.Cleanup(set.Release)
	g := Acquire(set, m, nowhere(), nil)
	for _, e := range g.members.Load().endpoints {
		e.state.health = healthy
	}
	return g
}

// BenchmarkAttempt is an attempt from Begin to End with everything on.
func BenchmarkAttempt(b *testing.B) {
	for _, scope := range []string{model.ScopeUpstream, model.ScopeEndpoint} {
		for _, name := range policies {
			for _, n := range []int{3, 100} {
				g := busy(b, name, scope, n)
				b.Run(fmt.Sprintf("%s/%s/%d", scope, name, n), func(b *testing.B) {
					b.ReportAllocs()
					x, now := exchange(b, user(1), "Cookie: sluice="+g.members.Load().endpoints[n/2].token), time.Now()
					var turn Turn
					for b.Loop() {
						now = now.Add(time.Microsecond)
						if err := g.Begin(&turn, x, nil, now); err != nil {
							b.Fatal(err)
						}
						turn.Answered(200, now.Add(time.Millisecond))
						turn.End()
					}
				})
			}
		}
	}
}
