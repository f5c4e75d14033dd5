package transport

import (
	"fmt"
	"runtime/debug"
)

// contain is deferred around what is not the engine's and is called where a panic
// would leave a connection, a place or a task behind. The fallback's log has it.
func (p *pool) contain() {
	if value := recover(); value != nil {
		stack := debug.Stack()
		p.fallback.executor.Post(func() { panic(fmt.Sprintf("BUG: beside an attempt: %v\n%s", value, stack)) })
	}
}

// contained is an observer whose panics go no further; contain is deferred around
// its calls.
func contained(o Observer, contain func()) Observer {
	around := func(observe func(upstream, endpoint string)) func(upstream, endpoint string) {
		if observe == nil {
			return nil
		}
		return func(upstream, endpoint string) {
			defer contain()
			observe(upstream, endpoint)
		}
	}
	o.Opened, o.Reused, o.Closed = around(o.Opened), around(o.Reused), around(o.Closed)
	return o
}
