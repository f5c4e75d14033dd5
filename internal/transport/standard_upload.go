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

// maxReplay is how much of a body may be sent again, in bytes.
const maxReplay = 64 << 10

// upload is the body of a request on its way out. The client's side may block
// for long; the sending side must not, since an attempt that ends waits for it.
// So a goroutine reads, when asked and never ahead, and the sender leaves it
// behind when the attempt ends.
//
// What is not of the goroutine or under mu belongs to whoever sends; Close may
// come from anyone.
type upload struct {
	ctx    context.Context
	source io.ReadCloser
	left   int64 // bytes to come, or Unknown
	end    error // of what the client sends

	asked   bool   // the client was asked for some of it
	waiting bool   // a block is asked for and has not been taken
	sent    bool   // some of it was given to a sender and not kept
	kept    []byte // all that was read, while it is not much
	want    chan struct{}
	got     chan block
	stopped chan struct{} // closed by Close

	mu      sync.Mutex
	started bool  // the goroutine that reads runs, and closes source
	closed  bool  // Close was called
	client  error // the client's failure, told instead of what followed from it
}

type block struct {
	data []byte
	err  error
}

func newUpload(ctx context.Context, request *message.Request) *upload {
	return &upload{
		ctx: ctx, source: request.Body, left: request.Length,
		want: make(chan struct{}), got: make(chan block, 1), stopped: make(chan struct{}),
	}
}

// repeatable tells whether the body can be sent again, from its beginning. nil
// is fine.
func (u *upload) repeatable() bool { return u == nil || !u.sent && u.failure() == nil }

// sending is a body as one connection gets it. Read is for the sender; it gives
// errStopped once the sending or the attempt is over.
type sending struct {
	*upload
	atEnd      func() // called before Read returns io.EOF
	connection *connection
	turn       *turn
	keep       bool // another sending may follow
	taken      int  // of what is kept
	pending    []byte
	over       error
	closing    sync.Once
	ended      chan struct{} // closed by Close

	awaiting  time.Time // since when a 100 (Continue) is waited for
	continued atomic.Bool
}

func newSending(u *upload) *sending {
	return &sending{upload: u, atEnd: func() {}, ended: make(chan struct{})}
}

// begin says where the body goes, before anything is sent.
func (s *sending) begin(c *connection, t *turn, reused bool) {
	s.connection, s.turn, s.keep = c, t, reused
}

// Read returns the next bytes.
func (s *sending) Read(p []byte) (int, error) {
	if len(s.pending) == 0 && s.over == nil {
		s.next()
	}
	if len(s.pending) > 0 {
		n := copy(p, s.pending)
		s.pending = s.pending[n:]
		return n, nil
	}
	return 0, s.over
}

// Close ends the sending. The body ends with it, unless it may be sent again.
func (s *sending) Close() error {
	s.closing.Do(func() { close(s.ended) })
	if s.keep && !s.turn.answered() {
		return nil // the end of the attempt closes it
	}
	return s.upload.Close()
}

// next gets the next bytes, or sets the end.
func (s *sending) next() {
	if s.answeredFirst() {
		select {
		case <-s.ended:
		case <-s.stopped:
		case <-s.ctx.Done():
		case <-s.connection.closed:
		}
		s.over = errStopped
		return
	}
	if s.taken < len(s.kept) {
		s.pending = s.kept[s.taken:]
		s.taken = len(s.kept)
		return
	}
	if s.end == nil && s.left == 0 {
		s.end = io.EOF
	}
	if s.end == nil && !s.read() {
		s.over = errStopped
		return
	}
	if s.over = s.end; errors.Is(s.over, io.EOF) {
		s.atEnd()
	}
}

// read waits for a block of the client's; false says that nobody wants it any
// more.
func (s *sending) read() bool {
	if !s.start() {
		return false
	}
	if !s.waiting {
		select {
		case s.want <- struct{}{}:
			s.waiting = true
		case <-s.stopped:
			return false
		}
	}
	select {
	case b := <-s.got:
		s.waiting = false
		s.pending = s.take(b)
		s.note()
		return true
	case <-s.ended:
	case <-s.stopped:
	case <-s.ctx.Done():
	case <-s.connection.closed:
	}
	return false
}

// note keeps what was read, or notes that it is gone once it is sent.
func (s *sending) note() {
	if !s.keep || s.sent || len(s.kept)+len(s.pending) > maxReplay {
		s.sent, s.kept = s.sent || len(s.pending) > 0, nil
		s.taken = 0
		return
	}
	s.kept = append(s.kept, s.pending...)
	s.taken = len(s.kept)
}

// answeredFirst tells whether the endpoint answered instead of asking for the
// body. Then the body is not asked of the client either (RFC 9110 10.1.1).
func (s *sending) answeredFirst() bool {
	return !s.asked && !s.awaiting.IsZero() && !s.continued.Load() && time.Since(s.awaiting) < continueTimeout
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

// take returns a block's bytes and notes the end that may be behind them.
func (u *upload) take(b block) []byte {
	if u.left != message.Unknown {
		b.data = b.data[:min(int64(len(b.data)), u.left)]
		u.left -= int64(len(b.data))
	}
	switch {
	case errors.Is(b.err, io.EOF) && u.left <= 0:
		u.end = io.EOF
	case errors.Is(b.err, io.EOF):
		u.fail(io.ErrUnexpectedEOF)
	case b.err != nil:
		u.fail(b.err)
	}
	return b.data
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
