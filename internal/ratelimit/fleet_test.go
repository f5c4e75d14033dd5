package ratelimit_test

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/ratelimit"
	"sluice/internal/redistest"
)

// TestSentinel goes on with the replica that takes over, without a restart, and knows
// what was used up.
func TestSentinel(t *testing.T) {
	for name, ends := range map[string]func(w *redistest.Watched){
		"the master is killed": func(w *redistest.Watched) { w.Master.Kill() },
		// As when their machine is gone: nothing answers, and nothing says so.
		"the master and the sentinel that told of it are silent": func(w *redistest.Watched) {
			w.Sentinels[0].Signal(syscall.SIGSTOP)
			w.Master.Signal(syscall.SIGSTOP)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			w := redistest.StartWatched(t, nil)
			log := new(logged)
			m := model.RedisStore{Sentinel: &model.RedisSentinel{Master: redistest.MasterName, Addresses: w.Addresses()[:1]}}
			l := instance(t, m, common(ratelimit.TokenBucket, quota(100, time.Hour, 100)), log)
			decided(t, l, "k", 30)
			redistest.Until(t, "the replica knows it", func() bool { return strings.Contains(fmt.Sprint(w.Replica.Must("KEYS", "*")), "sluice:limit:") })
			ends(w)
			redistest.Until(t, "the outage is noticed", func() bool { return l.Take(nobody{}, "k", "", 1).StoreFailed })
			if d := decided(t, l, "k", 1); d.Remaining < 60 || d.Remaining > 69 { // some may have been taken without an answer
				t.Errorf("after the replica took over %d remain", d.Remaining)
			}
			if log.Count("cannot be used") == 0 || log.Count("can be used again") == 0 {
				t.Error("the outage, or its end, is not told")
			}
		})
	}
}

// shards is a limit whose keys are on several servers.
type shards struct {
	t     *testing.T
	limit *ratelimit.Limit
	log   *logged
	keys  []string
}

func newShards(t *testing.T, c *redistest.Cluster) *shards {
	t.Helper()
	s := &shards{t: t, log: new(logged)}
	s.limit = instance(t, model.RedisStore{Cluster: c.Addresses()}, common(ratelimit.TokenBucket, quota(1000, time.Hour, 1000)), s.log)
	for i := range 40 {
		s.keys = append(s.keys, fmt.Sprint("k", i))
		decided(t, s.limit, s.keys[i], 1)
	}
	return s
}

// failing are how many keys have no decision of the store.
func (s *shards) failing() (n int) {
	for _, key := range s.keys {
		if s.limit.Take(nobody{}, key, "", 1).StoreFailed {
			n++
		}
	}
	return n
}

// on is how many of the keys a server has.
func on(s *redistest.Server) int {
	return strings.Count(fmt.Sprint(s.Must("KEYS", "sluice:limit:*|*}")), "sluice:limit:")
}

// beats is how often instances have told a server that they live.
func beats(s *redistest.Server) (n int) {
	for line := range strings.Lines(fmt.Sprint(s.Must("INFO", "commandstats"))) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_zadd:calls="); ok {
			number, _, _ := strings.Cut(rest, ",")
			n, _ = strconv.Atoi(number)
		}
	}
	return n
}

// TestClusterWithoutOne does as on_store_failure says for the keys of the server that
// is gone, and goes on exactly with all others. That those answer does not make it come
// back.
func TestClusterWithoutOne(t *testing.T) {
	for name, signals := range map[string][2]syscall.Signal{"killed": {syscall.SIGKILL}, "stopped": {syscall.SIGSTOP, syscall.SIGCONT}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			c := redistest.StartCluster(t, 3, 0)
			s := newShards(t, c)
			counts := int(c.Masters[0].SlotOf("sluice:{instances}")) * len(c.Masters) / 16384
			counter, gone := c.Masters[counts], c.Masters[(counts+1)%len(c.Masters)]
			want := on(gone)
			if want == 0 || want == len(s.keys) {
				t.Fatalf("%d of the keys are on one of three servers", want)
			}
			gone.Signal(signals[0])
			redistest.Until(t, "its keys alone have no decision", func() bool { return s.failing() == want })
			if answers, _, _ := s.limit.Store(); answers {
				t.Error("it is shown as if all answered")
			}
			back := fmt.Sprintf("can be used again\" store=main server=%s", gone.Address)
			told := beats(counter)
			redistest.Until(t, "it was asked twice whether it is back", func() bool { // each time after the instances are counted
				s.failing()
				return beats(counter) >= told+3
			})
			if n := s.log.Count(back); n > 0 {
				t.Errorf("while it is gone it is told %d times that it can be used again", n)
			}
			if signals[1] == 0 {
				gone.Kill()
				gone.Restart()
			} else {
				gone.Signal(signals[1])
			}
			redistest.Until(t, "all keys have decisions", func() bool { return s.failing() == 0 })
			redistest.Until(t, "the end is told", func() bool { answers, _, _ := s.limit.Store(); return answers && s.log.Count(back) > 0 })
		})
	}
}

// TestClusterFailover goes on with the replica that takes over.
func TestClusterFailover(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := redistest.StartCluster(t, 3, 1)
	s := newShards(t, c)
	c.Masters[0].Kill()
	redistest.Until(t, "the outage is noticed", func() bool { return s.failing() > 0 })
	redistest.Until(t, "all keys have decisions again", func() bool { return s.failing() == 0 })
	redistest.Until(t, "it is shown", func() bool { answers, _, _ := s.limit.Store(); return answers })
}

// TestClusterMoves a slot from one server to another: each decision counts, and counts
// once, at every step of the way.
func TestClusterMoves(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := redistest.StartCluster(t, 2, 0)
	for _, strategy := range ratelimit.Strategies() {
		t.Run(strategy.Name, func(t *testing.T) {
			l := instance(t, model.RedisStore{Cluster: c.Addresses()}, common(strategy.Name, quota(100, time.Hour, 100)), new(logged))
			before := decided(t, l, "k", 1).Remaining
			step := func(what string) {
				t.Helper()
				d := decided(t, l, "k", 1)
				if used := before - d.Remaining; used < 1 || used > 3 { // some may have been taken without an answer
					t.Errorf("%s: %d remained, %d remain", what, before, d.Remaining)
				}
				before = d.Remaining
			}
			from, to, found := c.Masters[0], c.Masters[1], on(c.Masters[0]) > 0
			if !found {
				from, to = to, from
			}
			keys, ok := from.Must("KEYS", "sluice:limit:*").([]any)
			if !ok || len(keys) != 1 {
				t.Fatalf("the limit has the keys %v", keys)
			}
			key := fmt.Sprint(keys[0])
			slot := from.SlotOf(key)
			begin := func(from, to *redistest.Server) {
				to.Must("CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID())
				from.Must("CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID())
			}
			end := func(from, to *redistest.Server) {
				to.Must("CLUSTER", "SETSLOT", slot, "NODE", to.ID())
				from.Must("CLUSTER", "SETSLOT", slot, "NODE", to.ID())
			}
			begin(from, to)
			step("the move has begun")
			host, port, _ := strings.Cut(to.Address, ":")
			from.Must("MIGRATE", host, port, key, 0, 5000)
			step("the key has moved (ASK)")
			end(from, to)
			step("the slot has moved (MOVED)")
			begin(to, from)
			to.Must("DEL", key)
			before = 100
			step("the key is new in a slot that moves (ASK)")
			end(to, from)
			step("the slot is back (MOVED)")
			from.Must("DEL", key)
		})
	}
}

// TestClusterThatIsNotThere is an outage as any.
func TestClusterThatIsNotThere(t *testing.T) {
	log := new(logged)
	l := instance(t, model.RedisStore{Cluster: []string{"127.0.0.1:1"}}, common(ratelimit.TokenBucket, quota(10, time.Hour, 10)), log)
	redistest.Until(t, "the outage is noticed", func() bool { return l.Take(nobody{}, "k", "", 1).StoreFailed })
	if answers, n, ok := l.Store(); answers || n != 1 || !ok {
		t.Errorf("it answers: %v, for %d instances, %v", answers, n, ok)
	}
	redistest.Until(t, "the outage is told once", func() bool { return log.Count("cannot be used") == 1 })
}
