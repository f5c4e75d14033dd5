package proxy

import (
	"errors"
	"io"
	"sync"

	"sluice/internal/message"
	"sluice/internal/upstream"
)

// upload is the request's body on its way to the transport.
type upload struct {
	watch  *watch
	source io.ReadCloser
	left   int64 // bytes to come, or message.Unknown
}

func (u *upload) Read(p []byte) (int, error) {
	u.watch.ask()
	n, err := u.source.Read(p)
	u.watch.asking.Store(false)
	if n > 0 {
		u.watch.touch()
		if u.left != message.Unknown {
			u.left -= int64(n)
		}
	}
	if u.left == 0 || errors.Is(err, io.EOF) {
		u.watch.sent()
	}
	return n, err
}

// Close closes the client's body.
func (u *upload) Close() error { return u.source.Close() }

// hold ties an attempt to the response that it gave: when the body or the
// tunnel ends, so does the attempt.
func hold(response *message.Response, w *watch, endpoint *upstream.Endpoint) {
	h := &held{watch: w, endpoint: endpoint}
	switch {
	case response.Tunnel != nil:
		response.Tunnel = &tunnel{held: h, Tunnel: response.Tunnel}
	case response.Body != nil:
		response.Body = &download{held: h, source: response.Body}
	default:
		h.end(nil)
	}
}

// held is an attempt whose response is under way.
type held struct {
	watch    *watch
	endpoint *upstream.Endpoint
	once     sync.Once
}

// end ends the attempt; err is what ended it, nil or io.EOF if all is well.
func (h *held) end(err error) {
	h.once.Do(func() {
		h.watch.end()
		h.endpoint.End(err != nil && !errors.Is(err, io.EOF) && atFault(err))
	})
}

// download is the response's body on its way to the client.
type download struct {
	*held
	source io.ReadCloser
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.source.Read(p)
	if n > 0 {
		d.watch.touch()
	}
	if err != nil {
		d.end(err)
	}
	return n, err
}

// Close ends the attempt.
func (d *download) Close() error {
	err := d.source.Close()
	d.end(nil)
	return err
}

// tunnel is the endpoint's side of an upgraded connection. It ends when it is
// closed, not when one direction is at its end.
type tunnel struct {
	*held
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

func (t *tunnel) passed(n int, err error) error {
	if n > 0 {
		t.watch.touch()
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
	t.end(failed)
	return err
}
