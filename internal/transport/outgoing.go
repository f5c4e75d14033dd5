package transport

import (
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"

	"sluice/internal/message"
)

// outgoing is the body of a request on its way to HTTP/2 connections, of which
// another may follow the first. Whoever reads it from the client (the filler)
// does so when asked, a piece at a time, and is never waited for: one that is
// stopped in a read is left behind. nil is fine, and stands for no body.
type outgoing struct {
	fields  message.Fields // of the request
	left    int64          // bytes of it that the filler has to read, or message.Unknown
	trailer func() message.Fields
	wake    func() // tells the filler that it is asked, or stopped; it does not wait

	mu     sync.Mutex
	cond   sync.Cond // of who sends
	piece  []byte    // what is to be sent next
	asked  bool      // a piece is wanted
	end    error     // behind the piece
	tail   message.Fields
	client error  // the client's failure, told instead of what follows from it
	kept   []byte // all that was read, while it is not much
	lost   bool   // some was sent and is not kept
	over   bool   // nobody wants it any more
}

func newOutgoing(request *message.Request) *outgoing {
	o := &outgoing{fields: request.Fields, left: request.Length, trailer: request.Trailer, wake: func() {}}
	o.cond.L = &o.mu
	return o
}

// ready reads a body that is small and there already; false: it is not, and
// nothing was read of it. The body is closed with its end.
func (o *outgoing) ready(body io.ReadCloser) (bool, error) {
	if o.left < 0 || o.left > pieceSize || int64(message.Buffered(body)) < o.left {
		return false, nil
	}
	o.kept = make([]byte, o.left)
	defer func() { _ = body.Close() }() // all of it was read, or an error is at hand
	if err := o.readReady(body); err != nil {
		return false, uploadFailure(err)
	}
	o.left, o.end = 0, io.EOF
	if o.trailer != nil {
		o.tail = o.trailer()
	}
	return true, nil
}

func (o *outgoing) readReady(body io.Reader) error {
	read := 0
	for empty := 0; read < len(o.kept); empty++ {
		n, err := body.Read(o.kept[read:])
		if read += n; n > 0 {
			empty = 0
		} else if err == nil && empty == mostEmpty {
			return errNoProgress()
		}
		if err != nil && read < len(o.kept) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// wanted tells the filler whether to read; over: it is to end.
func (o *outgoing) wanted() (read, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked, o.over || o.end != nil
}

// fill reads a piece into a buffer and gives it to who sends; the buffer is the
// sender's until the next is asked for.
func (o *outgoing) fill(body io.Reader, buffer []byte) {
	if o.left >= 0 && o.left < int64(len(buffer)) {
		buffer = buffer[:o.left]
	}
	n, err := 0, error(nil)
	for empty := 0; n == 0 && err == nil && o.left != 0; empty++ {
		if n, err = body.Read(buffer); n == 0 && err == nil && empty == mostEmpty {
			err = errNoProgress()
		}
	}
	if o.left > 0 {
		o.left -= int64(n)
	}
	last := o.left == 0 || o.left < 0 && errors.Is(err, io.EOF)
	var tail message.Fields
	if last && o.trailer != nil {
		tail = o.trailer()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.piece, o.asked = buffer[:n], false
	switch {
	case last:
		o.end, o.tail = io.EOF, tail
	case err != nil:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		o.broke(uploadFailure(err))
	}
	o.cond.Broadcast()
}

// takeBack tells whether nothing of the filler's last piece is to be sent any more,
// so that its buffer may be another's.
func (o *outgoing) takeBack() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		o.piece = nil
	}
	return len(o.piece) == 0
}

// broke notes the client's failure, unless it followed from the end. The caller
// holds the lock.
func (o *outgoing) broke(err error) {
	o.end = err
	if !o.over {
		o.client = err
	}
}

// fail is the end of a filler that cannot go on.
func (o *outgoing) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broke(err)
	o.cond.Broadcast()
}

// failure is the client's failure to send the body, or nil.
func (o *outgoing) failure() error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.client
}

// repeatable tells whether the body can be sent again, from its beginning.
func (o *outgoing) repeatable() bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.lost && o.client == nil && !o.over
}

// stop ends it: who reads gets errStopped. Further calls do nothing.
func (o *outgoing) stop() {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.over = true
	o.cond.Broadcast()
	o.mu.Unlock()
	o.wake()
}

// send begins another sending, by a request.
func (o *outgoing) send(request *http.Request) *portion {
	if o.trailer != nil {
		request.Trailer = declaredTrailer(o.fields)
	}
	return &portion{outgoing: o, request: request}
}

// portion is the body as one connection gets it.
type portion struct {
	*outgoing
	request *http.Request
	taken   int  // of what is kept
	closed  bool // under the lock
}

// Read returns the next bytes.
func (s *portion) Read(p []byte) (int, error) {
	s.mu.Lock()
	for {
		switch {
		case s.closed || s.over:
			s.mu.Unlock()
			return 0, errStopped
		case s.taken < len(s.kept):
			n := copy(p, s.kept[s.taken:])
			s.taken += n
			s.mu.Unlock()
			return n, nil
		case len(s.piece) > 0:
			n := copy(p, s.piece)
			s.note(s.piece[:n])
			s.piece = s.piece[n:]
			s.mu.Unlock()
			return n, nil
		case s.end != nil:
			err := s.end
			if errors.Is(err, io.EOF) && s.trailer != nil {
				fillTrailer(s.request.Trailer, s.tail)
			}
			s.mu.Unlock()
			return 0, err
		case !s.asked:
			s.asked = true
			s.mu.Unlock()
			s.wake()
			s.mu.Lock()
		default:
			s.cond.Wait()
		}
	}
}

// note keeps what is sent, or notes that it is gone.
func (s *portion) note(sent []byte) {
	if s.lost || len(s.kept)+len(sent) > maxReplay {
		s.lost, s.kept, s.taken = true, nil, 0
		return
	}
	s.kept = append(s.kept, sent...)
	s.taken = len(s.kept)
}

// Close ends the sending; the body may be sent again.
func (s *portion) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cond.Broadcast()
	return nil
}

// fillByGoroutine lets a goroutine read a body, which it closes.
func (o *outgoing) fillByGoroutine(body io.ReadCloser) {
	f := &goFiller{outgoing: o, body: body, woken: make(chan struct{}, 1)}
	o.wake = f.wake
}

// goFiller is the filler of a body that goroutines may read. Its goroutine begins
// when it is first asked.
type goFiller struct {
	*outgoing
	body    io.ReadCloser
	woken   chan struct{}
	mu      sync.Mutex
	started bool
	shut    bool
}

func (f *goFiller) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, over := f.wanted()
	switch {
	case f.started:
		select {
		case f.woken <- struct{}{}:
		default:
		}
	case over:
		if !f.shut {
			f.shut = true
			_ = f.body.Close() // what it says is of no use to anyone
		}
	default:
		f.started = true
		go f.run()
	}
}

func (f *goFiller) run() {
	defer func() { _ = f.body.Close() }() // as above
	defer func() {
		if value := recover(); value != nil {
			f.fail(panicked{value, debug.Stack()})
		}
	}()
	buffer := make([]byte, pieceSize)
	for {
		switch read, over := f.wanted(); {
		case over:
			return
		case read:
			f.fill(f.body, buffer)
		default:
			<-f.woken
		}
	}
}

// panicOf goes on with the panic of a body where the engine contains it.
func (o *outgoing) panicOf() {
	var p panicked
	if err := o.failure(); errors.As(err, &p) {
		panic("BUG: the body of a request panicked: " + p.Error())
	}
}
