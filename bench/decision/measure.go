//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// scenario is what is asked, and by how many at once.
type scenario struct {
	name       string
	keys       []string
	quota      quota // of each
	goroutines int
}

func scenarios(many int) []scenario {
	keys := make([]string, many)
	for i := range keys {
		keys[i] = fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	}
	all := runtime.GOMAXPROCS(0)
	return []scenario{
		{"one key, one processor", keys[:1], plenty, 1},
		{fmt.Sprintf("one key, all %d processors", all), keys[:1], plenty, all},
		{fmt.Sprintf("%d keys at random, all %d processors", many, all), keys, few, all},
	}
}

// batch is how many decisions are made between two looks at the clock.
const batch = 256

var errRefused = errors.New("a limit that lets all through has refused")

// measure runs the rounds of a case, and returns a table of them.
func (s *scenario) measure(o *options) (string, error) {
	names, all, err := contenders(len(s.keys), s.quota)
	if err != nil {
		return "", err
	}
	for _, one := range all {
		for _, key := range s.keys { // none is new any more
			if !one.take(key) {
				return "", errRefused
			}
		}
	}
	runtime.GC() //nolint:revive // what came before costs none of them anything
	cost, allocations, ratio := make([][]float64, len(all)), make([]float64, len(all)), make([][]float64, len(all))
	for range o.rounds {
		for i, one := range all {
			ns, allocated, err := s.round(one, o.duration)
			if err != nil {
				return "", err
			}
			cost[i] = append(cost[i], ns)
			allocations[i] = max(allocations[i], allocated)
			ratio[i] = append(ratio[i], ns/cost[0][len(cost[0])-1])
		}
	}
	for _, one := range all {
		if err := one.end(); err != nil {
			return "", err
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s\n\n| | ns of processor time a decision | to Sluice | allocations |\n|---|---|---|---|\n", s.name)
	for i, name := range names {
		fmt.Fprintf(&text, "| %s | %.0f (%.0f–%.0f) | %.2f (%.2f–%.2f) | %.0f |\n", name,
			median(cost[i]), slices.Min(cost[i]), slices.Max(cost[i]), median(ratio[i]), slices.Min(ratio[i]), slices.Max(ratio[i]), allocations[i])
	}
	return text.String(), nil
}

// round has one decide for so long, and returns what a decision took of processor time
// and how often it allocated.
func (s *scenario) round(one contender, duration time.Duration) (ns, allocations float64, err error) {
	var decisions atomic.Int64
	var refused atomic.Bool
	var group sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used, until := processorTime(), time.Now().Add(duration)
	for range s.goroutines {
		group.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for n := int64(batch); ; n += batch {
				for range batch {
					key := s.keys[0]
					if len(s.keys) > 1 {
						key = s.keys[random.IntN(len(s.keys))]
					}
					if !one.take(key) {
						refused.Store(true)
					}
				}
				if time.Now().After(until) {
					decisions.Add(n)
					return
				}
			}
		})
	}
	group.Wait()
	used = processorTime() - used
	runtime.ReadMemStats(&after)
	if refused.Load() {
		return 0, 0, errRefused
	}
	n := float64(decisions.Load())
	return float64(used) / n, float64(after.Mallocs-before.Mallocs) / n, nil
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("BUG: a process cannot ask what it has used: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
