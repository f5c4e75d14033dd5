//go:build !race

package auth

import (
	"testing"

	"sluice/internal/message"
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

// TestClaimsInRoomAllocateNothing: fields of claims stand in the room that there is for them.
func TestClaimsInRoomAllocateNothing(t *testing.T) {
	b := newBed(t, JWT(), secretly("claims_to_headers: {X-User: sub, X-Api: aud}"))
	whole := make(message.Fields, 8)
	token := bearing(hs(claimsOf(nil)))
	x := exchange(t, request("/"))
	serve := func() {
		n := copy(whole, request("/", token).Fields)
		x.Principal, x.Request.Fields = nil, whole[:n:n+1]
		x.GiveRoom(whole[:n+1])
		if err := b.handler.Serve(x); err != nil {
			t.Fatal(err)
		}
		if got := x.Request.Fields; len(got) != 3 || &got[0] != &whole[0] || got[2].Value != "api" {
			t.Fatalf("the fields are %v", got)
		}
	}
	serve()
	own := testing.AllocsPerRun(100, func() { copy(whole, request("/", token).Fields) })
	if n := testing.AllocsPerRun(100, serve); n > own {
		t.Errorf("%v allocations", n-own)
	}
}
