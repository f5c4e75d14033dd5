package h2

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// TestClientLeavesWithTheLastFrame has a client leave between the frame that ends
// its response and the return of the handler that waits for it. What was sent
// whole is no failure; what was not is one.
func TestClientLeavesWithTheLastFrame(t *testing.T) {
	for _, whole := range []bool{true, false} {
		near, far := net.Pipe()
		c := NewConn(near, Options{Handler: http.NotFoundHandler()}) // nobody serves it: what is written stays in out
		s := newStream(c, 1, 0)
		s.cancel = func(error) {}
		s.ended, s.begun = true, true
		sent := make(chan error)
		go func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			sent <- s.send([]byte("content"), true)
		}()
		left := func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			if s.pending == nil {
				return false
			}
			if s.window = int64(len("content")); !whole {
				s.window--
			}
			c.enqueue(s)
			c.share()
			s.kill(broken(net.ErrClosed))
			return true
		}
		for deadline := time.Now().Add(10 * time.Second); !left(); {
			if time.Now().After(deadline) {
				t.Fatal("nothing waits")
			}
		}
		if err := <-sent; (err == nil) != whole {
			t.Errorf("whole: %v, and it failed with %v", whole, err)
		}
		c.mu.Lock()
		s.stall.Stop()
		c.mu.Unlock()
		_, _ = near.Close(), far.Close()
	}
}
