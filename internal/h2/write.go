package h2

import (
	"errors"
	"os"
	"runtime"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// outWriter is where frames and fields are written: the end of out. Its caller
// holds mu.
type outWriter struct{ conn *Conn }

func (w outWriter) Write(p []byte) (int, error) {
	w.conn.ready()
	w.conn.out = append(w.conn.out, p...)
	return len(p), nil
}

// ready makes out a buffer.
func (c *Conn) ready() {
	if c.out == nil {
		c.out = c.options.Buffers.takeOut()
	}
}

// wake has a writer run if there is something to write. The caller holds mu.
func (c *Conn) wake() {
	if c.writes() {
		go c.write()
	}
}

// writes tells whether a writer is needed, and takes that place; the caller then
// runs write.
func (c *Conn) writes() bool {
	if c.writing || !c.serving || c.failed || len(c.out) == 0 && (c.first == nil || c.window <= 0) {
		return false
	}
	c.writing = true
	return true
}

// write is the writer: it gives the connection what is in out, again and again,
// and ends when there is nothing. Meanwhile others fill the other buffer: what
// many streams say together goes out in one piece.
func (c *Conn) write() {
	c.mu.Lock()
	if c.running > 0 {
		c.mu.Unlock()
		runtime.Gosched() // those that are about to write may do so first
		c.mu.Lock()
	}
	for {
		c.share()
		if len(c.out) == 0 || c.failed {
			break
		}
		whole := c.out
		c.out, c.spare = c.spare, nil
		c.turn++
		c.replies = 0
		c.extend()
		c.mu.Unlock()
		_, err := c.conn.Write(whole)
		c.mu.Lock()
		c.spare = whole[:0]
		if err != nil {
			c.unwritten(err)
		}
		for _, s := range c.crowd {
			s.writable.Broadcast()
		}
		c.crowd = c.crowd[:0]
	}
	c.writing = false
	if c.spare != nil {
		c.options.Buffers.giveOut(c.spare)
		c.spare = nil
	}
	if c.out != nil {
		c.options.Buffers.giveOut(c.out[:0])
		c.out = nil
	}
	c.quiet.Broadcast()
	c.mu.Unlock()
}

// extend gives the client its time to take what is written next.
func (c *Conn) extend() {
	if c.over {
		return // end has set the last deadline
	}
	now := time.Now()
	if c.deadline.Sub(now) > c.options.StallTimeout*3/4 {
		return // setting it costs a lock in the runtime
	}
	c.deadline = now.Add(c.options.StallTimeout)
	_ = c.conn.SetWriteDeadline(c.deadline) // of a closed connection: Write tells
}

// unwritten ends a connection that cannot be written to.
func (c *Conn) unwritten(err error) {
	c.failed = true
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errStalled
	}
	c.interrupt(broken(err))
}

// greet is what a server begins with (RFC 9113 3.4).
func (c *Conn) greet() {
	o := &c.options
	_ = c.framer.WriteSettings( // into a buffer, as all of these
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(o.MaxConcurrentStreams)},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(o.StreamWindow)},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(o.MaxHeaderBytes)},
		http2.Setting{ID: http2.SettingEnableConnectProtocol, Val: 1},
		http2.Setting{ID: http2.SettingNoRFC7540Priorities, Val: 1},
	)
	_ = c.framer.WriteWindowUpdate(0, uint32(o.ConnWindow-initialWindow))
	if c.clock.stage == warned {
		c.warn()
	}
}

// sayGoAway ends the connection for the client (RFC 9113 6.8).
func (c *Conn) sayGoAway(last uint32, code http2.ErrCode, why string) {
	_ = c.framer.WriteGoAway(last, code, []byte(why)) // into a buffer
}

// sayContinue tells the client to send the content.
func (c *Conn) sayContinue(s *stream) {
	c.head(s, "100", nil, false)
	c.wake()
}

// head puts a header block into out. The caller holds mu.
func (c *Conn) head(s *stream, status string, fields []hpack.HeaderField, end bool) {
	c.ready()
	start := len(c.out)
	c.out = append(c.out, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	if status != "" {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: ":status", Value: status}) // into a buffer
	}
	for i := range fields {
		if index, changes := volatile(fields[i].Name); changes && status != "" {
			c.out = appendLiteral(c.out, index, fields[i].Name, fields[i].Value)
		} else {
			_ = c.encoder.WriteField(fields[i]) // as above
		}
	}
	var flags http2.Flags
	if end {
		flags = http2.FlagHeadersEndStream
	}
	size := len(c.out) - start - frameHead
	if size <= frameSize {
		putHead(c.out[start:], size, http2.FrameHeaders, flags|http2.FlagHeadersEndHeaders, s.id)
		return
	}
	block := append([]byte(nil), c.out[start+frameHead:]...)
	c.out = c.out[:start]
	kind := http2.FrameHeaders
	for {
		piece := block[:min(len(block), frameSize)]
		if block = block[len(piece):]; len(block) == 0 {
			flags |= http2.FlagHeadersEndHeaders
		}
		c.out = appendHead(c.out, len(piece), kind, flags, s.id)
		c.out = append(c.out, piece...)
		if len(block) == 0 {
			return
		}
		kind, flags = http2.FrameContinuation, 0
	}
}

// appendHead appends the head of a frame (RFC 9113 4.1). The Framer would copy
// the content once more.
func appendHead(b []byte, length int, kind http2.FrameType, flags http2.Flags, id uint32) []byte {
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	putHead(b[len(b)-frameHead:], length, kind, flags, id)
	return b
}

func putHead(b []byte, length int, kind http2.FrameType, flags http2.Flags, id uint32) {
	b[0], b[1], b[2] = byte(length>>16), byte(length>>8), byte(length)
	b[3], b[4] = byte(kind), byte(flags)
	b[5], b[6], b[7], b[8] = byte(id>>24), byte(id>>16), byte(id>>8), byte(id)
}

// volatile tells whether a field's value differs with each response: in the
// table of the compression it would push out what comes again. index is the
// name's in the static table, or 0 (RFC 7541 A).
func volatile(name string) (index byte, is bool) {
	switch name {
	case "x-request-id":
		return 0, true
	case "age":
		return 21, true
	case "content-length":
		return 28, true
	case "content-range":
		return 30, true
	case "etag":
		return 34, true
	case "last-modified":
		return 44, true
	case "location":
		return 46, true
	case "set-cookie":
		return 55, true
	}
	return 0, false
}

// appendLiteral appends a field that goes into no table (RFC 7541 6.2.2).
func appendLiteral(b []byte, index byte, name, value string) []byte {
	if index == 0 {
		b = append(b, 0)
		b = appendText(b, name)
	} else {
		b = appendInteger(b, 15, int(index))
	}
	return appendText(b, value)
}

func appendText(b []byte, text string) []byte {
	b = appendInteger(b, 127, len(text))
	return append(b, text...)
}

// appendInteger appends an integer behind zero bits (RFC 7541 5.1).
func appendInteger(b []byte, most, n int) []byte {
	if n < most {
		return append(b, byte(n))
	}
	b = append(b, byte(most))
	for n -= most; n >= 128; n >>= 7 {
		b = append(b, byte(n)|128)
	}
	return append(b, byte(n))
}
