package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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
