package resilience

import (
	"testing"
	"time"
)

// TestGuardIsQuiet takes no lock while all is well, and misses nothing for that: neither a
// circuit breaker that opens nor the end of a part.
func TestGuardIsQuiet(t *testing.T) {
	g := newGuarded(t)
	g.pass(30, 50*time.Millisecond, true)
	func() {
		g.mu.Lock() // a Judge that takes it waits for ever
		defer g.mu.Unlock()
		for range 9 {
			g.now += 100 * time.Millisecond
			if g.judge(true); g.ease != easy {
				t.Errorf("%+v is left", g.ease)
			}
		}
	}()
	g.judge(false)
	g.expect("shedding: the circuit breaker is not closed")
	if g.ease == easy {
		t.Error("all is left")
	}
	if g.judge(true); g.ease == easy {
		t.Error("all is left at once after that")
	}
}
