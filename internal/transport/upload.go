package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/message"
)

// uploadBuffer is how much of a request's body is read at once, in bytes.
const uploadBuffer = 32 << 10

// errStopped is what whoever sends the body gets once the attempt is over.
var errStopped = errors.New("the attempt is over")

// upload is the body of a request on its way out. The client's side may block
// for long; the sending side must not, since an attempt that ends waits for it.
// So a goroutine reads, when asked and never ahead, and the sender leaves it
// behind when the attempt ends.
//
// Read is for the sender; Close may come from anyone.
type upload struct {
	ctx    context.Context
	source io.ReadCloser
	left   int64  // bytes to come, or Unknown
	atEnd  func() // called before Read returns io.EOF

	asked   bool   // the client was asked for some of it
	pending []byte // read and not yet taken
	end     error
	want    chan struct{}
	got     chan block
	stopped chan struct{} // closed by Close

	connection *connection // set before anything is sent on it

	mu      sync.Mutex
	started bool  // the goroutine that reads runs, and closes source
	closed  bool  // Close was called
	client  error // the client's failure, told instead of what followed from it

	awaiting  time.Time // since when a 100 (Continue) is waited for
	continued atomic.Bool
}

type block struct {
	data []byte
	err  error
}

func newUpload(ctx context.Context, request *message.Request) *upload {
	return &upload{
		ctx: ctx, source: request.Body, left: request.Length, atEnd: func() {},
		want: make(chan struct{}), got: make(chan block, 1), stopped: make(chan struct{}),
	}
}

// Read returns the next bytes, or errStopped once the attempt is over.
func (u *upload) Read(p []byte) (int, error) {
	if len(u.pending) == 0 && u.end == nil {
		u.next()
	}
	if len(u.pending) > 0 {
		n := copy(p, u.pending)
		u.pending = u.pending[n:]
		return n, nil
	}
	return 0, u.end
}

// next gets the next block, or sets the end.
func (u *upload) next() {
	if u.left == 0 {
		u.end = io.EOF
		return
	}
	if u.answeredFirst() {
		select {
		case <-u.stopped:
		case <-u.ctx.Done():
		case <-u.connection.closed:
		}
		u.end = errStopped
		return
	}
	if !u.start() {
		u.end = errStopped
		return
	}
	select {
	case u.want <- struct{}{}:
	case <-u.stopped:
	}
	select {
	case b := <-u.got:
		u.take(b)
	case <-u.stopped:
		u.end = errStopped
	case <-u.ctx.Done():
		u.end = errStopped
	case <-u.connection.closed:
		u.end = errStopped
	}
}

// start sees to it that the goroutine runs, unless the body is closed.
func (u *upload) start() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	if !u.started {
		u.started = true
		u.asked = true
		go u.pump()
	}
	return true
}

// answeredFirst tells whether the endpoint answered instead of asking for the
// body. Then the body is not asked of the client either (RFC 9110 10.1.1).
func (u *upload) answeredFirst() bool {
	return !u.asked && !u.awaiting.IsZero() && !u.continued.Load() && time.Since(u.awaiting) < continueTimeout
}

func (u *upload) take(b block) {
	if u.left != message.Unknown {
		b.data = b.data[:min(int64(len(b.data)), u.left)]
		u.left -= int64(len(b.data))
	}
	u.pending = b.data
	switch {
	case errors.Is(b.err, io.EOF) && u.left <= 0:
		u.atEnd()
		u.end = io.EOF
	case errors.Is(b.err, io.EOF):
		u.fail(io.ErrUnexpectedEOF)
	case b.err != nil:
		u.fail(b.err)
	}
}

func (u *upload) fail(err error) {
	u.end = uploadFailure(err)
	if u.ctx.Err() != nil {
		return // it followed from what ended the attempt
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.client = u.end
}

// failure is the client's failure to send the body, or nil.
func (u *upload) failure() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.client
}

// pump reads the client's body and closes it. It may outlive the attempt, until
// a last read returns.
func (u *upload) pump() {
	size := int64(uploadBuffer)
	if u.left > 0 {
		size = min(size, u.left)
	}
	buffer := make([]byte, size)
	for {
		select {
		case <-u.want:
			n, err := u.source.Read(buffer)
			u.got <- block{buffer[:n], err}
		case <-u.stopped:
			_ = u.source.Close() // what it says is of no use to anyone any more
			return
		}
	}
}

// Close ends the body; a client's read under way is left behind. Further calls
// do nothing; nil is fine.
func (u *upload) Close() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	close(u.stopped)
	if u.started {
		return nil
	}
	return u.source.Close()
}
