//go:build !race

package auth

import (
	"testing"
)

// With the race detector more is allocated.
func TestSecondUseAllocatesNothing(t *testing.T) {
	b := newBed(t, JWT(), secretly())
	x := exchange(t, request("/", bearing(hs(claimsOf(nil)))))
	serve := func() {
		x.Principal = nil
		if err := b.handler.Serve(x); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	if n := testing.AllocsPerRun(100, serve); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
