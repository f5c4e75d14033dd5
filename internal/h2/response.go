package h2

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// response is the http.ResponseWriter of a stream, and what net/http's
// ResponseController asks for: Flush, deadlines, full duplex. It belongs to the
// handler's goroutine. What is written is held back until there is some, it is
// flushed, all of a declared length is there, or the handler has returned.
//
// Where a length is declared, the response ends with its last byte: trailers must
// be announced, or set, before that.
type response struct {
	stream   *stream
	header   http.Header
	status   int // 0: not said
	fields   []hpack.HeaderField
	typed    bool   // the content's type is known, or not to be told
	dated    bool   // there is a Date
	declared int64  // the Content-Length, or -1
	length   string // the same as text, if it came so
	written  int64
	trailers []string // announced, as keys of header
	hold     *[holdLimit]byte
	held     int
}

// Header returns the header, and after it was sent the place for trailers.
func (r *response) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// WriteHeader fixes the header. Informational responses go out at once; there is
// no 101 in HTTP/2.
func (r *response) WriteHeader(status int) {
	if r.status != 0 {
		return
	}
	if status < 100 || status > 999 || status == http.StatusSwitchingProtocols {
		panic(fmt.Sprintf("BUG: a response of status %d", status))
	}
	if status < 200 {
		r.inform(status)
		return
	}
	r.status = status
	r.snapshot()
}

func (r *response) inform(status int) {
	informational := response{stream: r.stream, header: r.header, status: status, declared: -1}
	informational.snapshot()
	s := r.stream
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.begun || s.room() != nil {
		return // the response itself tells
	}
	if status == http.StatusContinue {
		s.proceed = false
	}
	c.head(s, statusText(status), informational.fields, false)
	c.wake()
}

// Write takes content. Errors: http.ErrBodyNotAllowed, http.ErrContentLength,
// os.ErrDeadlineExceeded past the write deadline, or why the stream is over.
func (r *response) Write(p []byte) (int, error) { return write(r, p) }

// WriteString is Write.
func (r *response) WriteString(text string) (int, error) { return write(r, text) }

func write[T []byte | string](r *response, p T) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if !allowsBody(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	head := r.stream.request.Method == http.MethodHead
	if r.declared >= 0 && r.written+int64(len(p)) > r.declared && !head {
		return 0, http.ErrContentLength
	}
	r.written += int64(len(p))
	if head || len(p) == 0 {
		return len(p), nil
	}
	whole := r.written == r.declared && len(r.trailers) == 0 && !r.unannounced()
	if r.held+len(p) <= holdLimit && (!whole || r.held > 0) {
		if r.hold == nil {
			r.hold = r.stream.conn.options.Buffers.takeHold()
		}
		r.held += copy(r.hold[r.held:], p)
		if !whole {
			return len(p), nil
		}
		return len(p), r.push(nil, true)
	}
	if err := r.push([]byte(p), whole); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush is FlushError.
func (r *response) Flush() { _ = r.FlushError() }

// FlushError sends what is there, without waiting until it is written.
func (r *response) FlushError() error {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.push(nil, false)
}

// SetReadDeadline bounds reading the body; zero: no bound.
func (r *response) SetReadDeadline(at time.Time) error {
	s := r.stream
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.reading.set(at, &s.readable)
	return nil
}

// SetWriteDeadline bounds waiting for the client; zero: Options.StallTimeout does.
func (r *response) SetWriteDeadline(at time.Time) error {
	s := r.stream
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.writing.set(at, &s.writable)
	return nil
}

// EnableFullDuplex is how it always is.
func (r *response) EnableFullDuplex() error { return nil }

// push sends the head, what was held back, and p.
func (r *response) push(p []byte, end bool) error {
	s := r.stream
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.finished {
		c.wake()
		return nil
	}
	held := r.held
	r.held = 0
	if err := r.begin(held, p, end); err != nil {
		r.spoil(err)
		return err
	}
	var err error
	if held > 0 && !s.finished {
		err = s.send(r.hold[:held], end && len(p) == 0)
	}
	if err == nil && !s.finished && (len(p) > 0 || end) {
		err = s.send(p, end)
	}
	if err != nil {
		r.spoil(err)
	}
	c.wake()
	return err
}

// spoil ends a stream of whose response something is lost.
func (r *response) spoil(err error) {
	r.stream.reset(http2.ErrCodeInternal, err)
	r.stream.conn.wake()
}

// begin sends the head if it was not.
func (r *response) begin(held int, p []byte, end bool) error {
	s := r.stream
	if s.begun {
		return s.gone
	}
	if err := s.room(); err != nil {
		return err
	}
	bodiless := !allowsBody(r.status) || s.request.Method == http.MethodHead
	if !r.typed && (held > 0 || len(p) > 0) {
		sample := p
		if held > 0 {
			sample = r.hold[:held]
		}
		r.add("content-type", http.DetectContentType(sample))
	}
	if r.declared >= 0 && allowsLength(r.status) {
		if r.length == "" {
			r.length = strconv.FormatInt(r.declared, 10)
		}
		r.add("content-length", r.length)
	}
	c := s.conn
	if !r.dated {
		r.add("date", c.now())
	}
	s.begun = true
	empty := r.declared == 0 && len(r.trailers) == 0 && !r.unannounced()
	last := bodiless || empty || end && held == 0 && len(p) == 0
	s.mark, s.markTurn = len(c.out), c.turn
	c.head(s, statusText(r.status), r.fields, last)
	if last {
		s.endLocal()
	}
	return nil
}

// now is the value of Date. The caller holds mu.
func (c *Conn) now() string {
	now := time.Now()
	if second := now.Unix(); second != c.dateOf || c.date == "" {
		c.dateOf, c.date = second, now.UTC().Format(http.TimeFormat)
	}
	return c.date
}

// finish sends what is left when the handler has returned. The caller does not
// hold mu. It tells whether the response is whole.
func (r *response) finish() bool {
	s := r.stream
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	head := s.request.Method == http.MethodHead
	if r.declared >= 0 && r.written < r.declared && allowsBody(r.status) && !head {
		return false
	}
	trailers := r.trailing()
	tunnel := s.request.Method == http.MethodConnect && r.status < 300
	unsent := r.written == int64(r.held) && !head || r.written > 0 && head
	if r.declared < 0 && len(trailers) == 0 && len(r.trailers) == 0 && allowsBody(r.status) && !tunnel && unsent {
		r.declared = r.written // what is not sent yet is all there is
	}
	if r.push(nil, len(trailers) == 0) != nil {
		return false
	}
	if len(trailers) == 0 {
		return true
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.finished { // of what has no content, or had its length
		return true
	}
	if s.room() != nil {
		return false
	}
	c.head(s, "", trailers, true)
	s.endLocal()
	return true
}

// statusText is a status as its field has it.
func statusText(status int) string {
	switch status { // those that come often, for nothing
	case 200:
		return "200"
	case 304:
		return "304"
	case 404:
		return "404"
	}
	return strconv.Itoa(status)
}

// allowsBody tells whether a status comes with content (RFC 9110 6.4.1).
func allowsBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// allowsLength tells whether it comes with Content-Length (RFC 9110 8.6).
func allowsLength(status int) bool { return status >= 200 && status != http.StatusNoContent }
