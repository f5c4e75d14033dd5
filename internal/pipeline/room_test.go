package pipeline

import (
	"testing"

	"sluice/internal/message"
)

// What is taken is the taker's alone: nothing that outgrows it writes into what
// the next one has.
func TestTakeRoom(t *testing.T) {
	var x Exchange
	if got := x.TakeRoom(3); len(got) != 0 || cap(got) < 3 {
		t.Errorf("without a room: %d of %d", len(got), cap(got))
	}
	x.GiveRoom(make(message.Fields, 5))
	first, second := x.TakeRoom(2), x.TakeRoom(3)
	if cap(first) != 2 || cap(second) != 3 {
		t.Fatalf("room for %d and %d", cap(first), cap(second))
	}
	second.Add("A", "second")
	for range 3 {
		first.Add("A", "first")
	}
	if len(first) != 3 || second[0].Value != "second" {
		t.Errorf("%v, %v", first, second)
	}
	if got := x.TakeRoom(1); cap(got) < 1 {
		t.Error("no room")
	}
}
