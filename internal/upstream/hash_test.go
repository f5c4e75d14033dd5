package upstream

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"sluice/internal/lease"
	"sluice/internal/model"
)

// homes are the endpoints of users by consistent hash.
func homes(t *testing.T, g *Group, users int) []string {
	t.Helper()
	list := make([]string, users)
	for i := range list {
		e, err := pickAt(g, exchange(t, user(i)), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		list[i] = e.URL
	}
	return list
}

func counted(list []string) map[string]int {
	counts := map[string]int{}
	for _, one := range list {
		counts[one]++
	}
	return counts
}

// Between two lists of endpoints exactly those move that must: to one that gained, or
// from one that lost, its share.
func TestConsistentHashMovesNoMoreThanItsShare(t *testing.T) {
	const users = 20000
	for _, test := range []struct {
		from, to string
		moved    float64                    // of all
		may      func(from, to string) bool // who moves where
		shares   map[string]float64         // then
	}{
		{"a=1 b=1 c=1 d=1", "a=1 b=1 c=1 d=1", 0, nil, map[string]float64{"a": .25, "b": .25, "c": .25, "d": .25}},
		{"a=1 b=1 c=1", "a=1 b=1 c=1 d=1", .25, func(_, to string) bool { return to == "d" }, map[string]float64{"a": .25, "b": .25, "c": .25, "d": .25}},
		{"a=1 b=1 c=1 d=1", "d=1 a=1 c=1", .25, func(from, _ string) bool { return from == "b" }, map[string]float64{"a": 1. / 3, "c": 1. / 3, "d": 1. / 3}},
		{"a=3 b=1", "a=3 b=1 c=4", .5, func(_, to string) bool { return to == "c" }, map[string]float64{"a": .375, "b": .125, "c": .5}},
		{"a=1 b=1", "a=3 b=1", .25, func(from, to string) bool { return from == "b" && to == "a" }, map[string]float64{"a": .75, "b": .25}},
		{"a=3 b=1 c=4", "a=3 b=1 c=0", .5, func(from, _ string) bool { return from == "c" }, map[string]float64{"a": .75, "b": .25}},
	} {
		before, _ := acquire(t, new(lease.Registry), of(test.from, policy(model.ConsistentHash)))
		after, _ := acquire(t, new(lease.Registry), of(test.to, policy(model.ConsistentHash)))
		was, is := homes(t, before, users), homes(t, after, users)
		moved := 0
		for i := range was {
			if was[i] != is[i] {
				moved++
				if test.may == nil || !test.may(was[i], is[i]) {
					t.Fatalf("%s to %s: a user moves from %s to %s", test.from, test.to, was[i], is[i])
				}
			}
		}
		near(t, test.from+" to "+test.to+": moved", moved, users, test.moved)
		counts := counted(is)
		for url, share := range test.shares {
			near(t, test.to+": "+url, counts[url], users, share)
		}
	}
}

// The users of an endpoint that is out go evenly to the others, and come back.
func TestUsersOfOneThatIsOut(t *testing.T) {
	const users = 10000
	g, _ := acquire(t, new(lease.Registry), of("a=1 b=1 c=1", policy(model.ConsistentHash)))
	was := homes(t, g, users)
	g.Drain("b", true)
	is := homes(t, g, users)
	to := map[string]int{}
	for i := range was {
		switch {
		case was[i] == "b":
			to[is[i]]++
		case was[i] != is[i]:
			t.Fatalf("a user of %s moves to %s", was[i], is[i])
		}
	}
	near(t, "from b to a", to["a"], to["a"]+to["c"], .5)
	g.Drain("b", false)
	if again := homes(t, g, users); strings.Join(again, "") != strings.Join(was, "") {
		t.Error("after all not everybody is where he was")
	}
}

// What is left out for speed changes nothing of who has the highest score.
func TestHashedIsWhoHasTheHighestScore(t *testing.T) {
	var f field
	for i := range 40 {
		f.add(&Endpoint{Endpoint: model.Endpoint{Weight: 1 + i*7%5}, seed: xxhash.Sum64String(fmt.Sprint(i))}, 1)
	}
	for key := range uint64(5000) {
		key = mix(key)
		best, highest := 0, math.Inf(-1)
		for i, e := range f.endpoints {
			if s := Score(key, e.seed, e.Weight); s > highest {
				best, highest = i, s
			}
		}
		if f.hashed(key) != f.endpoints[best] {
			t.Fatalf("key %d: another than the one with the highest score", key)
		}
	}
}

func TestScore(t *testing.T) {
	for _, seed := range []uint64{0, 1, math.MaxUint64} { // at the ends of what can be drawn, too
		for _, key := range []uint64{0, 1, seed, math.MaxUint64} {
			if s := Score(key, seed, 1); math.IsNaN(s) || math.IsInf(s, 0) || s <= 0 {
				t.Errorf("score %v", s)
			}
			if Score(key, seed, 0) > 0 {
				t.Error("a weight of 0 has a score")
			}
		}
	}
}

// A split and a balancer that know users by the same key do not correlate: the users
// of each side are spread over the endpoints of an upstream as all are.
func TestSplitAndHashDoNotCorrelate(t *testing.T) {
	const users = 40000
	g, _ := acquire(t, new(lease.Registry), of("a=1 b=1 c=1 d=1", policy(model.ConsistentHash)))
	v1, v2 := xxhash.Sum64String("side\nup\nv1"), xxhash.Sum64String("side\nup\nv2")
	table := map[bool]map[string]int{true: {}, false: {}}
	sizes := map[bool]int{}
	for i, home := range homes(t, g, users) {
		key := xxhash.Sum64String(strings.TrimPrefix(user(i), "X-User: "))
		canary := Score(key, v2, 20) > Score(key, v1, 80)
		table[canary][home]++
		sizes[canary]++
	}
	near(t, "the canary", sizes[true], users, .2)
	statistic := 0.0
	for canary, row := range table {
		for _, url := range []string{"a", "b", "c", "d"} {
			expected := float64(sizes[canary]) * float64(table[true][url]+table[false][url]) / users
			d := float64(row[url]) - expected
			statistic += d * d / expected
		}
	}
	// Chi-square of three degrees of freedom: 21.1 is passed once in ten thousand
	// times, and the keys are always the same.
	if statistic > 21.1 {
		t.Errorf("chi-square is %.1f: %v", statistic, table)
	}
}
