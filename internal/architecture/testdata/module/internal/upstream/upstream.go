// Package upstream keeps state where nobody sees it.
package upstream

import (
	"sync"
	"sync/atomic"
)

var (
	mu      sync.Mutex             // want state
	buffers = &sync.Pool{}         // want state
	next    atomic.Uint64          // want state
	current atomic.Pointer[string] // want state
	events  = make(chan int)       // want state
	seen    = map[string]int{}
	total   int
	options struct{ name string }
)

// Pick picks.
func Pick(name string) *int {
	mu.Lock()
	defer mu.Unlock()
	seen[name] = 1        // want state
	seen[name]++          // want state
	delete(seen, name)    // want state
	options.name = name   // want state
	for total = range 3 { // want state
		next.Add(1)
	}
	_, _, _ = buffers, current, events
	return &total // want state
}
