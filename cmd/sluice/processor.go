package main

import (
	"os"
	"runtime"
)

// spareProcessors is called where event loops are about to begin. It lets the runtime run twice as many goroutines at once as there
// are event loops, and returns how many loops there are to be: one for each
// processor. Loops that are saturated never wait; everything else (the admin API,
// the access log, libraries) would have to wait for them, but so the system
// shares the processors out. GOMAXPROCS in the environment is the user's word.
func spareProcessors() (loops int) {
	loops = min(runtime.GOMAXPROCS(0), runtime.NumCPU())
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * loops)
	}
	return loops
}
