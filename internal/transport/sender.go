package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// lastWrite is how long an attempt whose response is complete waits for the last
// bytes of the request to be written, so that its connection can go on.
const lastWrite = 50 * time.Millisecond

// sender sends the body of a request, by a task of its own, while the attempt's
// task waits for the response. What fails on the connection the attempt sees
// there; what fails at the client the sender tells, and interrupts the attempt.
//
// started belongs to the attempt, what is above to the task, the rest to mu.
type sender struct {
	ctx     context.Context
	shelf   *shelf
	body    io.ReadCloser
	left    int64 // bytes of the body to come, or message.Unknown
	empty   int   // reads in a row that gave neither a byte nor an error
	trailer func() message.Fields
	chunked bool
	sealed  bool // it goes out encrypted, and through this process

	started  bool
	finished netloop.Event // set when the task has ended

	mu    sync.Mutex
	link  *link         // where the body goes; nil: the attempt is looking for another
	moved netloop.Event // set when that changes; nil: the task does not wait for it
	out   int64         // bytes written on link
	last  bool          // all of the body was read
	whole bool          // and written
	ended bool          // the attempt is over
	over  bool          // the task has ended
	shut  bool          // body is closed
	kept  []byte        // all that was read, while it is not much
	keep  bool          // another connection may follow
	lost  bool          // some was sent and is not kept
	fault error         // the client's, told instead of what follows from it
}

func newSender(l *link, body io.ReadCloser) *sender {
	request := l.try.Request
	if !l.own {
		body = newAside(body, l.pool.contain)
	}
	return &sender{
		ctx: l.ctx, shelf: l.shelf, body: body, left: request.Length, trailer: request.Trailer, chunked: request.Length < 0, keep: l.reused,
		sealed: l.secure != nil,
	}
}

// start begins to send on a connection.
func (s *sender) start(l *link) error {
	s.finished = s.shelf.executor.NewEvent()
	s.link = l
	l.beginLooking()
	if !s.shelf.spawn(s.run) {
		return netloop.ErrStopped
	}
	s.started = true
	return nil
}

// run is the task.
func (s *sender) run() {
	returned := false
	defer func() {
		if !returned { // the panic is the executor's to tell
			s.fail(pipeline.NewError(pipeline.Internal, errors.New("reading the body panicked")))
		}
		s.close()
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
		s.finished.Set()
	}()
	engine := s.shelf.pool.engine
	buffer := engine.takePiece()
	for more := true; more; {
		more = s.next(buffer) && s.pipe()
	}
	engine.pieces.Put(buffer)
	returned = true
}

// next reads a piece and writes it; false ends the sending.
func (s *sender) next(buffer *piece) bool {
	room := buffer[frameRoom : frameRoom+pieceSize]
	if s.left >= 0 && s.left < int64(len(room)) {
		room = room[:s.left]
	}
	n, err := s.body.Read(room)
	if s.left >= 0 {
		s.left -= int64(n)
	}
	last := s.left == 0 || s.left < 0 && errors.Is(err, io.EOF)
	if err != nil && !last {
		s.fail(err)
		return false
	}
	if n == 0 && !last {
		if s.empty++; s.empty > mostEmpty {
			s.fail(errNoProgress())
		}
		return s.empty <= mostEmpty
	}
	s.empty = 0
	data := room[:n]
	if s.chunked {
		if data, err = s.frame(buffer, n, last); err != nil {
			s.fail(err)
			return false
		}
	}
	return s.write(data, room[:n], last) && !last
}

// frame makes a chunk of the bytes in a buffer, and of the end of the body what
// ends it.
func (s *sender) frame(buffer *piece, n int, last bool) ([]byte, error) {
	begin, end := frameRoom, frameRoom+n
	if n > 0 {
		var header [frameRoom]byte
		size := append(strconv.AppendInt(header[:0], int64(n), 16), "\r\n"...)
		begin -= len(size)
		copy(buffer[begin:], size)
		end += copy(buffer[end:], wire.ChunkEnd)
	}
	if !last {
		return buffer[begin:end], nil
	}
	return s.appendLast(buffer[begin:end])
}

// appendLast appends what ends a chunked body, with its trailer.
func (s *sender) appendLast(b []byte) ([]byte, error) {
	var fields message.Fields
	if s.trailer != nil {
		fields = s.trailer()
	}
	return wire.AppendLastChunk(b, fields)
}

// write writes a piece; false, if nobody wants it any more. One that fails may be
// written to another connection by the attempt.
func (s *sender) write(data, payload []byte, last bool) bool {
	s.mu.Lock()
	l := s.await(nil)
	s.note(payload, last) // before another can be told to send what is on record
	s.mu.Unlock()
	if l == nil {
		return false
	}
	return s.put(l, last, func() (int, error) {
		n, err := l.conn.Write(data)
		data = data[n:]
		return n, err
	})
}

// put calls write until all of a piece, which is on record, is written; the
// result is that of write. What becomes of it on a connection that was taken away
// means nothing.
func (s *sender) put(l *link, last bool, write func() (int, error)) bool {
	for {
		n, err := write()
		late := errors.Is(err, os.ErrDeadlineExceeded)
		s.mu.Lock()
		mine := s.link == l
		if mine {
			s.out += int64(n)
			s.whole = err == nil && last
		}
		if err != nil && !(mine && late) {
			l = s.await(l)
			s.mu.Unlock()
			return l != nil
		}
		s.mu.Unlock()
		if err == nil {
			s.progress(l, last)
			return true
		}
		s.unbound(l)
	}
}

// progress sees to it that the attempt knows until when it waits: the end of the
// request may bring that nearer.
func (s *sender) progress(l *link, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l {
		return
	}
	if last {
		l.sent()
	}
	l.hasten()
}

// unbound lets writing take as long as the attempt waits for the response: that
// keeps the time.
func (s *sender) unbound(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == l {
		l.writeUntil = time.Time{}
		l.conn.SetWriteDeadline(time.Time{})
	}
}

// await is the connection that the body goes to, once it is another than before;
// nil: the attempt is over. The caller holds the lock, which others may have
// meanwhile.
func (s *sender) await(before *link) *link {
	for !s.ended && (s.link == nil || s.link == before) {
		moved := s.shelf.executor.NewEvent()
		s.moved = moved
		s.mu.Unlock()
		err := moved.Wait(time.Time{})
		s.mu.Lock()
		if err != nil { // the executor stops, and ends the attempt, too
			return nil
		}
	}
	if s.ended {
		return nil
	}
	return s.link
}

// note keeps what is about to be sent, or notes that it is gone. The caller holds
// the lock.
func (s *sender) note(payload []byte, last bool) {
	s.last = last
	if !s.keep || s.lost || len(s.kept)+len(payload) > maxReplay {
		s.lost, s.kept = s.lost || len(payload) > 0, nil
		return
	}
	s.kept = append(s.kept, payload...)
}

// fail tells what the client did, and ends the attempt by it.
func (s *sender) fail(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.ctx.Err() != nil {
		return // it followed from what ended the attempt
	}
	s.fault = uploadFailure(err)
	if s.link != nil {
		s.link.conn.Interrupt(errStopped)
	}
}

// failure is the client's failure to send the body, or nil.
func (s *sender) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// reached is how many bytes were written on a connection in all.
func (s *sender) reached(l *link) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.written + s.out
}

// pause takes the connection away; resume gives another. It tells whether the
// body can be sent again, from its beginning, which does not change until then,
// unless the client fails.
func (s *sender) pause() (repeatable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.whole = nil, false
	return !s.lost && s.fault == nil
}

// resume goes on with another connection, to which what is kept is sent again
// first. The client may have failed meanwhile, which nobody was told.
func (s *sender) resume(l *link) error {
	s.mu.Lock()
	kept, last, lost, fault := s.kept, s.last, s.lost, s.fault
	s.mu.Unlock()
	switch {
	case lost:
		panic("BUG: a body is sent again of which some is gone")
	case fault != nil:
		return fault
	}
	data := kept
	if s.chunked {
		data = wire.AppendChunk(make([]byte, 0, frameRoom+len(kept)+frameEnd), kept)
	}
	if s.chunked && last {
		var err error
		if data, err = s.appendLast(data); err != nil {
			return uploadFailure(err)
		}
	}
	if err := l.write(data); err != nil {
		return err
	}
	l.beginLooking()
	return s.move(l)
}

// move lets the body go to another connection, which has got all that was kept.
func (s *sender) move(l *link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return s.fault
	}
	s.link, s.out, s.whole = l, 0, s.last
	s.kept, s.keep = nil, false
	if s.last {
		l.sent()
	}
	if s.moved != nil {
		s.moved.Set()
		s.moved = nil
	}
	return nil
}

// close closes the body, once.
func (s *sender) close() {
	s.mu.Lock()
	shut := s.shut
	s.shut = true
	s.mu.Unlock()
	if !shut {
		defer s.shelf.pool.contain() // others wait for what follows
		_ = s.body.Close()           // what it says is of no use to anyone any more
	}
}

// finish tells whether all of the request is sent. It waits a moment for a last
// write under way.
func (s *sender) finish() bool {
	if !s.started {
		return false
	}
	s.mu.Lock()
	last := s.last && !s.over
	s.mu.Unlock()
	if last {
		_ = s.finished.Wait(time.Now().Add(lastWrite))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over && s.whole {
		s.link.written += s.out
		return true
	}
	return false
}

// stop ends the sending, whose connection is closed or interrupted, and returns
// when nothing of it runs any more.
func (s *sender) stop() {
	s.mu.Lock()
	s.ended = true
	if s.moved != nil {
		s.moved.Set()
		s.moved = nil
	}
	s.mu.Unlock()
	s.close() // which wakes who reads it
	if !s.started || s.finished.Wait(time.Time{}) == nil {
		return
	}
	for !s.hasEnded() { // the executor stops, and does not wait any more
		s.shelf.executor.Block(runtime.Gosched)
	}
}

func (s *sender) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}
