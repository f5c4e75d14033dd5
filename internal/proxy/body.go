package proxy

import (
	"errors"
	"io"
	"sync"
	"time"

	"sluice/internal/message"
	"sluice/internal/netloop"
)

// errBodyOver is what reading a response's body gives after its end.
var errBodyOver = errors.New("the body of a response was read after its Close")

// upload is the request's body on its way to the transport.
type upload forward

// Read reads from the client, within the route's time-outs.
func (u *upload) Read(p []byte) (int, error) {
	u.watch.Ask()
	return u.came(u.uploading.Read(p))
}

// came notes what came of the body.
func (u *upload) came(n int, err error) (int, error) {
	u.watch.Given(n)
	if u.left != message.Unknown {
		u.left -= int64(n)
	}
	if u.left == 0 || errors.Is(err, io.EOF) {
		u.watch.Sent(time.Now())
	}
	return n, err
}

// ReadInto is Read into a pipe, where the client's body can do that.
func (u *upload) ReadInto(p *netloop.Pipe, most int64) (int, error) {
	source, ok := u.uploading.(netloop.PipeReader)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	u.watch.Ask()
	n, err := source.ReadInto(p, most)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, err
	}
	return u.came(n, err)
}

// Buffered is how much of it is there.
func (u *upload) Buffered() int { return message.Buffered(u.uploading) }

// Close closes the client's body.
func (u *upload) Close() error { return u.uploading.Close() }

// download is the response's body on its way to the client. After its end the
// endpoint's is not touched any more: the transport may have another use for it.
type download forward

// Read reads from the endpoint. Any error ends the attempt.
func (d *download) Read(p []byte) (int, error) {
	if d.downloading == nil {
		return 0, d.over
	}
	if message.Buffered(d.downloading) > 0 { // else it is waited for
		return d.ended(d.downloading.Read(p))
	}
	d.watch.Await()
	return d.came(d.downloading.Read(p))
}

// came notes what came of the body.
func (d *download) came(n int, err error) (int, error) {
	d.watch.Came()
	return d.ended(n, err)
}

// ended ends the attempt where reading the body has ended.
func (d *download) ended(n int, err error) (int, error) {
	if err != nil {
		failed := err != io.EOF //nolint:errorlint // as io.Reader has it; failures may wrap it
		if failed {
			err = (*forward)(d).late(err)
		}
		d.downloading, d.over = nil, err
		if failed && atFault(err) {
			(*forward)(d).broke()
		} else {
			(*forward)(d).end()
		}
	}
	return n, err
}

// ReadInto is Read into a pipe, where the endpoint's body can do that.
func (d *download) ReadInto(p *netloop.Pipe, most int64) (int, error) {
	source, ok := d.downloading.(netloop.PipeReader)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	d.watch.Await()
	n, err := source.ReadInto(p, most)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, err
	}
	return d.came(n, err)
}

// Buffered is how much of it is there.
func (d *download) Buffered() int {
	if d.downloading == nil {
		return 0
	}
	return message.Buffered(d.downloading)
}

// Close ends the attempt.
func (d *download) Close() error {
	if d.downloading == nil {
		return nil
	}
	err := d.downloading.Close()
	d.downloading, d.over = nil, errBodyOver
	(*forward)(d).end()
	return err
}

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
