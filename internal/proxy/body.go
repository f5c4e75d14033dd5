package proxy

import (
	"errors"
	"io"
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
	if message.Buffered(d.downloading) == 0 {
		d.watch.Await()
	}
	return d.came(d.downloading.Read(p))
}

// came notes what came of the body.
func (d *download) came(n int, err error) (int, error) {
	d.watch.Came(n)
	return d.ended(n, err)
}

// ended ends the attempt where reading the body has ended.
func (d *download) ended(n int, err error) (int, error) {
	if err != nil {
		failed := err != io.EOF //nolint:errorlint // as io.Reader has it; failures may wrap it
		if failed {
			err = (*forward)(d).late(err)
		} else if d.call {
			code, _ := (*forward)(d).code()
			if over := (*forward)(d).lateCode(code); over != nil {
				err, failed = over, true
			}
		}
		d.downloading, d.over = nil, err
		switch {
		case failed && atFault(err):
			(*forward)(d).broke()
		case !failed && d.call:
			(*forward)(d).returned()
		default:
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
