package proxy

import (
	"errors"
	"io"
	"sync"

	"sluice/internal/message"
)

// tunnel is the endpoint's side of an upgraded connection. It ends when it is
// closed, not when one direction is at its end.
type tunnel struct {
	*forward
	message.Tunnel

	mu     sync.Mutex
	failed error
}

func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.Tunnel.Read(p)
	return n, t.passed(n, err)
}

func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.Tunnel.Write(p)
	return n, t.passed(n, err)
}

// Touch notes that the client has taken something, for whoever writes to it.
func (t *tunnel) Touch() { t.watch.Touch() }

func (t *tunnel) passed(n int, err error) error {
	if n > 0 {
		t.watch.Touch()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.failed == nil {
			t.failed = err
		}
	}
	return err
}

// Close ends the attempt, both directions at once.
func (t *tunnel) Close() error {
	err := t.Tunnel.Close()
	t.mu.Lock()
	failed := t.failed
	t.mu.Unlock()
	if failed != nil && atFault(failed) {
		t.broke()
	} else {
		t.end()
	}
	return err
}
