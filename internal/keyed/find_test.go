package keyed

import "testing"

func TestFind(t *testing.T) {
	table := NewTable[state](2, nil, never)
	if table.Find(spread(1)) != nil || table.Len() != 0 {
		t.Error("a state that nobody made was found")
	}
	one := table.Get(spread(1), 0)
	two := table.Get(spread(2), 0)
	if table.Find(spread(1)) != one || one == two {
		t.Error("another state was found")
	}
	table.Get(spread(3), 0) // the one that was not asked for again makes room
	table.Find(spread(1))
	table.Get(spread(4), 0)
	if table.Find(spread(1)) != one || table.Len() != 2 {
		t.Error("a state that was found went before those that were not")
	}
}
