package keyed

import (
	"sync"
	"testing"
)

// TestResize takes more keys with all that it knows, and fewer by and by.
func TestResize(t *testing.T) {
	for _, most := range []int{1000, 100_000} { // with one lock, and with many
		table := NewTable[state](most, nil, never)
		first := table.Get(spread(0), 0)
		for i := range most {
			table.Get(spread(i), 0)
		}
		table.Resize(2 * most)
		for i := range 2 * most {
			table.Get(spread(i), 0)
		}
		if table.Len() != 2*most || table.Evicted() != 0 || table.Get(spread(0), 0) != first {
			t.Fatalf("with room for %d: %d states, %d evicted", 2*most, table.Len(), table.Evicted())
		}
		few := most / 10
		table.Resize(few)
		last := table.Len()
		for i := range 2 * most {
			table.Get(spread(2*most+i), 0)
			held := table.Len()
			if held > last || last-held > 2*shrinks {
				t.Fatalf("with room for %d: %d states, and then %d", few, last, held)
			}
			last = held
		}
		if last != few {
			t.Errorf("with room for %d: %d states in the end", few, last)
		}
		table.Resize(0)
		table.Get(spread(-1), 0)
		for i := range few {
			table.Get(spread(-2-i), 0)
		}
		if table.Len() != 1 {
			t.Errorf("with room for none: %d states", table.Len())
		}
	}
}

// TestResizeConcurrent has keys come while the table grows and shrinks.
func TestResizeConcurrent(t *testing.T) {
	table := NewTable[state](2000, nil, never)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 20_000 {
				table.Get(spread(g<<20+i), 0).taken.Add(1)
			}
		})
	}
	group.Go(func() {
		for i := range 1000 {
			table.Resize(100 + i%2*3000)
		}
	})
	group.Wait()
	table.Resize(100)
	for i := range 1000 {
		table.Get(spread(-1-i), 0)
	}
	if table.Len() != 100 {
		t.Errorf("%d states", table.Len())
	}
}
