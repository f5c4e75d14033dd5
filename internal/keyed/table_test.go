package keyed

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// state counts how often it was taken, and says when it is idle.
type state struct {
	taken atomic.Int64
	busy  atomic.Int64 // until when, in nanoseconds
}

func idle(s *state, now time.Duration) bool { return s.busy.Load() <= int64(now) }

func never(*state, time.Duration) bool { return false }

// spread makes keys of numbers that are as good as a hash.
func spread(n int) uint64 {
	x := uint64(n) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func TestSameState(t *testing.T) {
	table := NewTable[state](100_000, nil, never)
	const keys = 50_000
	held := map[int]*state{}
	for i := range keys {
		held[i] = table.Get(spread(i), 0)
	}
	for i := range keys {
		if table.Get(spread(i), 0) != held[i] {
			t.Fatalf("key %d got another state", i)
		}
	}
	if table.Len() != keys || table.Evicted() != 0 {
		t.Errorf("%d states, %d evicted", table.Len(), table.Evicted())
	}
}

func TestFresh(t *testing.T) {
	table := NewTable(1, func(v *int) { *v = 7 }, nil)
	if v := table.Get(table.Key("a"), 0); *v != 7 {
		t.Errorf("a new state is %d", *v)
	}
}

func TestKey(t *testing.T) {
	one, other := NewTable[int](1, nil, nil), NewTable[int](1, nil, nil)
	again := one.Key("a")
	if one.Key("a") != again || one.Key("b") == again {
		t.Error("a key is not that of its text")
	}
	if one.Key("a") == other.Key("a") {
		t.Error("two tables have the same keys: whoever knows those of one knows all")
	}
}

// TestMost holds tables of many sizes to the number of states, in every moment.
func TestMost(t *testing.T) {
	for _, most := range []int{-1, 1, 2, 3, 511, 512, 1024, 5000} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			table := NewTable[state](most, nil, never)
			want := max(most, 1)
			for i := range 3*want + 10 {
				table.Get(spread(i), 0)
				if table.Len() != min(i+1, want) {
					t.Fatalf("%d states after %d keys", table.Len(), i+1)
				}
			}
			if got := table.Evicted(); got != int64(2*want+10) {
				t.Errorf("%d evicted, want %d", got, 2*want+10)
			}
			seen := 0
			table.Range(func(uint64, *state) bool { seen++; return true })
			if seen != want {
				t.Errorf("%d are there", seen)
			}
		})
	}
}

// TestUsedStays floods a table while some keys are in use: all of these stay.
func TestUsedStays(t *testing.T) {
	const most, hot = 2000, 500
	table := NewTable[state](most, nil, never)
	held := make([]*state, hot)
	for i := range held {
		held[i] = table.Get(spread(i), 0)
	}
	for i := range 50_000 {
		table.Get(spread(hot+i), 0)
		at := i % hot
		if table.Get(spread(at), 0) != held[at] {
			t.Fatalf("key %d was evicted after %d others, though it is in use", at, i)
		}
	}
	if want := int64(hot + 50_000 - most); table.Evicted() != want {
		t.Errorf("%d evicted, want %d", table.Evicted(), want)
	}
}

// TestOldestGo: where none is used again, the oldest go, one after the other.
func TestOldestGo(t *testing.T) {
	const most = 512
	table := NewTable[state](most, nil, never)
	for i := range 4 * most {
		table.Get(spread(i), 0)
		for _, c := range []struct {
			key  int
			want bool
		}{{i, true}, {i - most + 1, true}, {i - most, false}} {
			if got := contains(table, c.key); c.key >= 0 && got != c.want {
				t.Fatalf("after %d keys key %d is there: %v", i+1, c.key, got)
			}
		}
	}
}

// contains looks without use.
func contains(table *Table[state], key int) (found bool) {
	table.Range(func(k uint64, _ *state) bool { found = k == spread(key); return !found })
	return found
}

// TestIdleGoFirst: where some are idle they make room, those that are not stay, and
// nothing is counted.
func TestIdleGoFirst(t *testing.T) {
	const most = 512
	table := NewTable[state](most, nil, idle)
	busy := map[int]*state{}
	for i := range most {
		s := table.Get(spread(i), 0)
		s.busy.Store(10)
		if i%2 == 0 {
			s.busy.Store(1_000_000)
			busy[i] = s
		}
	}
	for i := range most / 2 {
		table.Get(spread(most+i), 100).busy.Store(1_000_000)
	}
	if table.Evicted() != 0 {
		t.Errorf("%d evicted while others were idle", table.Evicted())
	}
	for i, s := range busy {
		if table.Get(spread(i), 100) != s {
			t.Errorf("key %d has gone, though it is not idle", i)
		}
	}
	if table.Len() != most {
		t.Errorf("%d states", table.Len())
	}
}

// TestIdleAreSwept: keys that come once each and are idle after a time do not fill the
// table, however many come.
func TestIdleAreSwept(t *testing.T) {
	const lives = 300 // keys that come while a state is busy, or lingers
	const linger = 10 * time.Second
	const step = 2 * linger / lives
	table := NewTable[state](100_000, nil, idle).Linger(linger)
	for i := range 50_000 {
		now := time.Duration(i) * step
		table.Get(spread(i), now).busy.Store(int64(now + linger))
		if table.Len() > 6*lives {
			t.Fatalf("%d states after %d keys, of which %d are not idle", table.Len(), i, lives)
		}
	}
	if table.Evicted() != 0 {
		t.Errorf("%d evicted", table.Evicted())
	}
}

// TestIdleComeBack: keys that are idle soon after each time that they come find their
// state again, as long as they come often, whatever else comes.
func TestIdleComeBack(t *testing.T) {
	const clients = 1000
	const linger = 10 * time.Second
	table := NewTable[state](100_000, nil, idle).Linger(linger)
	var now time.Duration
	come := func(key int) *state {
		s := table.Get(spread(key), now)
		s.busy.Store(int64(now + time.Millisecond))
		return s
	}
	var known [clients]*state
	for round := range 20 {
		for i := range clients {
			now += linger / 2 / clients
			s := come(i)
			if round > 0 && s != known[i] {
				t.Fatalf("key %d is made anew in round %d", i, round)
			}
			known[i] = s
			come(clients + round*clients + i) // once
		}
	}
}

// TestShardSize: what one lock guards is in no line of memory that another's is in.
func TestShardSize(t *testing.T) {
	if size := reflect.TypeFor[shard[state]]().Size(); size%128 != 0 {
		t.Errorf("a shard has %d bytes, which is no number of pairs of lines", size)
	}
}

// TestElsewhere: a shard that is empty gets its first state from a table that is full.
func TestElsewhere(t *testing.T) {
	table := NewTable[state](1024, nil, never)
	if len(table.shards) != 2 {
		t.Fatalf("%d shards", len(table.shards))
	}
	for i := range uint64(1024) {
		table.Get(i, 0) // all in the first shard
	}
	if table.shards[1].held != 0 {
		t.Fatal("the second shard is not empty")
	}
	s := table.Get(1<<63, 0)
	if table.Get(1<<63, 0) != s || table.Len() != 1024 || table.Evicted() != 1 {
		t.Errorf("%d states, %d evicted", table.Len(), table.Evicted())
	}
}

func TestRangeEnds(t *testing.T) {
	table := NewTable[state](10, nil, never)
	for i := range 10 {
		table.Get(spread(i), 0)
	}
	calls := 0
	table.Range(func(uint64, *state) bool { calls++; return calls < 3 })
	if calls != 3 {
		t.Errorf("called %d times after it was told to end", calls)
	}
}

// TestModel holds a table to a map, over random histories: a state is the one of its
// key for as long as it is there, none comes from nowhere, and each that goes was idle
// or is counted.
func TestModel(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		most := 1 + random.IntN(1500)
		table := NewTable[state](most, nil, idle)
		model := map[uint64]*state{}
		made := 0
		var now time.Duration
		for range 10_000 {
			now += time.Duration(random.IntN(10))
			key := spread(random.IntN(3 * most))
			s := table.Get(key, now)
			if s.taken.Add(1) == 1 {
				made++
			} else if model[key] != s {
				t.Fatalf("seed %d: the state of another key", seed)
			}
			model[key] = s
			s.busy.Store(int64(now) + random.Int64N(2000))
		}
		there := 0
		table.Range(func(key uint64, s *state) bool {
			there++
			if model[key] != s {
				t.Fatalf("seed %d: a state that nobody got last", seed)
			}
			return true
		})
		if there != table.Len() || there > most {
			t.Fatalf("seed %d: %d are there, %d are counted, %d are allowed", seed, there, table.Len(), most)
		}
		if made < there+int(table.Evicted()) {
			t.Fatalf("seed %d: %d were made, %d are there, %d were evicted", seed, made, there, table.Evicted())
		}
	}
}

// TestConcurrent: goroutines that come for the same keys get the same states, while
// others flood the table and it grows.
func TestConcurrent(t *testing.T) {
	const most, workers, hot, rounds = 20_000, 8, 100, 5000
	table := NewTable[state](most, nil, never)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range rounds {
				table.Get(spread(i%hot), 0).taken.Add(1)
				table.Get(spread(hot+worker*rounds+i), 0)
				if table.Len() > most {
					t.Errorf("%d states", table.Len())
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range hot {
		if got := table.Get(spread(i), 0).taken.Load(); got != workers*rounds/hot {
			t.Errorf("key %d was taken %d times, want %d: some took from another state", i, got, workers*rounds/hot)
		}
	}
	seen := 0
	table.Range(func(uint64, *state) bool { seen++; return true })
	if seen != most || table.Len() != most {
		t.Errorf("%d are there, %d are counted, want %d", seen, table.Len(), most)
	}
}
