package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// heapFloor is up to where the heap may grow before it is collected. By itself
// the runtime collects each time that the live heap has doubled, which of a few
// MiB is dozens of times a second under load, for some twentieth of all
// processor time.
const heapFloor = 24 << 20

// The percentages by which the heap may grow (see debug.SetGCPercent).
const (
	leastGrowth = 100 // the runtime's own
	mostGrowth  = 600 // of the 4 MiB that the runtime takes for the least: heapFloor
)

// liveHeap is what was alive at the last collection.
const liveHeap = "/gc/heap/live:bytes"

// paceCollector keeps the collector from running before the heap has reached
// heapFloor, for as long as the process lives. GOGC in the environment is the
// user's word.
func paceCollector() {
	if os.Getenv("GOGC") == "" {
		new(pacer).watch()
	}
}

// The pace of tidying.
const (
	tidyInterval = 200 * time.Millisecond
	// calmBytes is what at most is allocated in an interval of calm.
	calmBytes = 64 << 10
	// untidyBytes is from how much on what was allocated since the last collection
	// is worth another.
	untidyBytes = 4 << 20
)

// tidyCollector collects, and gives memory back to the system, where calm has
// followed work: connections at rest then hold what they need, and not what the
// requests before have left. It runs until ctx ends. GOGC is the user's word here,
// too.
func tidyCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	ticker := time.NewTicker(tidyInterval)
	defer ticker.Stop()
	var t tidier
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if t.due(readUsage()) {
				debug.FreeOSMemory()
			}
		}
	}
}

// usage is what was allocated, and collected, ever.
type usage struct{ bytes, collections uint64 }

func readUsage() usage {
	samples := [...]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples[:])
	return usage{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// tidier tells when it is time to collect.
type tidier struct {
	last      usage
	collected uint64 // bytes, when the last collection was seen
}

// due is told the usage after each interval.
func (t *tidier) due(now usage) bool {
	calm := now.bytes-t.last.bytes <= calmBytes
	if now.collections != t.last.collections {
		t.collected = t.last.bytes
	}
	t.last = now
	return calm && now.bytes-t.collected >= untidyBytes
}

// pacer sets the pace anew after each collection, by a finalizer that each one
// runs.
type pacer struct {
	growth int
	live   [1]metrics.Sample
}

type collected struct{ _ [16]byte }

func (p *pacer) watch() {
	p.live[0].Name = liveHeap
	metrics.Read(p.live[:])
	if growth := growthFor(p.live[0].Value.Uint64()); growth != p.growth {
		p.growth = growth
		debug.SetGCPercent(growth)
	}
	runtime.SetFinalizer(new(collected), func(*collected) { p.watch() })
}

// growthFor is by how much a live heap may grow. Steps keep it from changing
// each time.
func growthFor(live uint64) int {
	const step = 25
	if live == 0 {
		return mostGrowth
	}
	growth := (heapFloor/int64(live)*100 + heapFloor%int64(live)*100/int64(live)) - 100
	return int(min(max(growth/step*step, leastGrowth), mostGrowth))
}
