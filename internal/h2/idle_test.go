package h2_test

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"testing"

	"sluice/internal/h2"
	"sluice/internal/waittest"
)

// TestIdleMemory: a connection at rest keeps its reader, and little else.
func TestIdleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for connections to come to rest")
	}
	const conns = 200
	options := handler(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100)) })
	options.Buffers = h2.NewBuffers()
	s := serve(t, options, nil)
	var before, after runtime.MemStats
	clients := make([]*raw, conns)
	for i := range clients {
		clients[i] = s.dial(t)
		clients[i].settled()
	}
	goroutines := runtime.NumGoroutine()
	debug.FreeOSMemory()
	runtime.ReadMemStats(&before)
	for round := range 10 {
		for _, c := range clients {
			id := uint32(2*round + 1)
			c.open(id, true, get())
			if a := c.answer(id); a.status != "200" {
				t.Fatal(a)
			}
		}
	}
	waittest.Until(t, "only readers", func() bool { return runtime.NumGoroutine() <= goroutines })
	debug.FreeOSMemory()
	debug.FreeOSMemory() // what is pooled goes with the second
	runtime.ReadMemStats(&after)
	if each := int64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse) / conns; each > 48<<10 { // with the race detector, too
		t.Errorf("a connection that has served keeps %d bytes more", each)
	} else {
		t.Logf("%d bytes more", each)
	}
}
