package netloop

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// TestBrokenBeside has a peer break connections while a task reads and another
// writes: the system tells only one of them, but it is the end of the stream for
// none.
func TestBrokenBeside(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		for range 500 {
			c, peer := pair(t, x, "tcp")
			begun := make(chan struct{})
			writing := beside(x, func() {
				var err error
				for n := 0; err == nil; n++ {
					if _, err = c.Write([]byte("x")); n == 10 {
						close(begun)
					}
				}
				if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
					t.Errorf("write: %v", err)
				}
			})
			go func() {
				<-begun
				_ = peer.(*net.TCPConn).SetLinger(0)
				_ = peer.Close()
			}()
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("read: %v", err)
			}
			_ = writing.Wait(time.Time{})
			_ = c.Close()
		}
	})
}
