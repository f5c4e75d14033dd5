package h2

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/net/http2"
)

// read is the reader: it takes frames until the connection is to end, and says
// why.
func (c *Conn) read() error {
	if err := c.preface(); err != nil {
		return err
	}
	first := true
	for {
		c.drained()
		header, err := c.framer.ReadFrameHeader()
		if err != nil {
			return c.misread(err)
		}
		if first && (header.Type != http2.FrameSettings || header.Flags.Has(http2.FlagSettingsAck)) {
			return fmt.Errorf("%w: %s", ErrPreface, header.Type)
		}
		first = false
		if header.Type == http2.FrameData {
			err = c.data(header)
		} else {
			err = c.frame(header)
		}
		c.report()
		if err != nil {
			return err
		}
	}
}

// preface reads what every connection of a client begins with (RFC 9113 3.4).
func (c *Conn) preface() error {
	c.slow = true
	c.setReadDeadline(time.Now().Add(c.options.ReadHeaderTimeout))
	var got [len(http2.ClientPreface)]byte
	for n := range got {
		b, err := c.reader.ReadByte()
		if err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				return ErrPreface
			}
			return c.misread(err)
		}
		if got[n] = b; b != http2.ClientPreface[n] { // at once: it may be no more
			return ErrPreface
		}
	}
	return nil
}

// drained is called before each frame: where reading may have to wait, what was
// answered goes out.
func (c *Conn) drained() {
	if c.reader.Buffered() >= frameHead {
		return
	}
	if !c.replied {
		return
	}
	c.replied = false
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake()
}

const frameHead = 9 // bytes (RFC 9113 4.1)

// misread is what an error of the Framer means.
func (c *Conn) misread(err error) error {
	var code http2.ConnectionError
	var stream http2.StreamError
	switch {
	case errors.Is(err, http2.ErrFrameTooLarge):
		return ErrFrameSize
	case errors.As(err, &code):
		rule := ErrFrame
		switch http2.ErrCode(code) {
		case http2.ErrCodeFrameSize:
			rule = ErrFrameSize
		case http2.ErrCodeFlowControl:
			rule = ErrWindow
		default:
		}
		if detail := c.framer.ErrorDetail(); detail != nil {
			return fmt.Errorf("%w: %w", rule, detail)
		}
		return rule
	case errors.As(err, &stream): // of a header block: lost with what it says to the decoder
		return ErrFrame
	}
	return c.lost(err)
}

// frame reads the rest of a frame that is not DATA, and does what it says.
func (c *Conn) frame(header http2.FrameHeader) error {
	if c.reader.Buffered() < int(header.Length) {
		c.hurry()
	}
	f, err := c.framer.ReadFrameForHeader(header)
	if err != nil {
		var stream http2.StreamError
		switch {
		case header.Type == http2.FrameWindowUpdate && errors.As(err, &stream):
			return c.fault(header.StreamID, ErrWindowZero)
		case errors.Is(err, io.ErrUnexpectedEOF) && header.Flags&(http2.FlagHeadersPadded|http2.FlagHeadersPriority) != 0:
			return ErrFrameSize // the frame is too short for what it says, or the connection broke
		}
		return c.misread(err)
	}
	if err := c.obey(f); err != nil {
		return err
	}
	if c.slow && !c.block.open {
		c.slow = false
		c.setReadDeadline(time.Time{})
	}
	return nil
}

// hurry bounds the time for what has begun.
func (c *Conn) hurry() {
	if !c.slow {
		c.slow = true
		c.setReadDeadline(time.Now().Add(c.options.ReadHeaderTimeout))
	}
}

func (c *Conn) obey(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		return c.headers(f)
	case *http2.ContinuationFrame:
		return c.continuation(f)
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.WindowUpdateFrame:
		return c.windowUpdate(f)
	case *http2.PingFrame:
		return c.ping(f)
	case *http2.RSTStreamFrame:
		return c.rstStream(f)
	case *http2.PriorityFrame: // RFC 9113 5.3.2: deprecated, and passed over
		if err := c.idleFrame(1); err != nil {
			return err
		}
		if f.StreamDep == f.StreamID {
			return c.fault(f.StreamID, ErrSelfDepend)
		}
		return nil
	case *http2.PushPromiseFrame:
		return ErrPush
	}
	// GOAWAY of a client ends nothing here; PRIORITY_UPDATE (RFC 9218 7.1) is a
	// hint; frames of unknown types are passed over (RFC 9113 5.5).
	return c.idleFrame(1)
}

// idleFrame counts a frame that carries nothing.
func (c *Conn) idleFrame(cost float64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spend(cost)
}

// spend is idleFrame for who holds mu.
func (c *Conn) spend(cost float64) error {
	if !c.control.spend(cost, time.Now()) {
		return ErrControlFlood
	}
	return nil
}

// reply counts a reply that was put into out.
func (c *Conn) reply() error {
	c.replied = true
	if c.replies++; c.replies > maxReplies {
		return ErrReplyFlood
	}
	return nil
}

func (c *Conn) settings(f *http2.SettingsFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.spend(1 + float64(f.NumSettings())/8); err != nil {
		return err
	}
	if f.IsAck() {
		c.clock.settings = time.Time{}
		return nil
	}
	if err := f.ForeachSetting(c.setting); err != nil {
		return err
	}
	_ = c.framer.WriteSettingsAck() // into a buffer
	return c.reply()
}

// setting obeys one. What is named twice counts as said last (RFC 9113 6.5.3).
func (c *Conn) setting(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		if s.ID == http2.SettingInitialWindowSize {
			return ErrWindow
		}
		return fmt.Errorf("%w: %s", ErrSetting, s)
	}
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.encoder.SetMaxDynamicTableSize(min(s.Val, tableSize))
	case http2.SettingInitialWindowSize:
		change := int64(s.Val) - c.initial
		c.initial = int64(s.Val)
		for _, stream := range c.streams {
			if stream.window += change; stream.window > maxWindow {
				return ErrWindow // RFC 9113 6.9.2
			}
			c.enqueue(stream)
		}
		c.replied = true // the writer may go on
	case http2.SettingNoRFC7540Priorities:
		if s.Val > 1 {
			return fmt.Errorf("%w: %s", ErrSetting, s)
		}
	default: // of no meaning for a server that sends frames of the least size and no pushes
	}
	return nil
}

// maxWindow is the largest flow-control window (RFC 9113 6.9.1).
const maxWindow = 1<<31 - 1

func (c *Conn) windowUpdate(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.spend(1); err != nil {
		return err
	}
	c.replied = true // the writer may go on
	if f.StreamID == 0 {
		if c.window += int64(f.Increment); c.window > maxWindow {
			return ErrWindow
		}
		return nil
	}
	s, err := c.find(f.StreamID)
	if s == nil {
		return err
	}
	if s.window += int64(f.Increment); s.window > maxWindow {
		return c.faultStream(s, ErrWindow)
	}
	c.enqueue(s)
	return nil
}

// live is the stream of a number if it is open. The caller holds mu.
func (c *Conn) live(id uint32) *stream {
	if s := c.streams[id]; s != nil && !s.closed() {
		return s
	}
	return nil
}

// find is the open stream of a number, or nil where it is closed. A stream that
// the client never opened is an error. The caller holds mu.
func (c *Conn) find(id uint32) (*stream, error) {
	if s := c.live(id); s != nil {
		return s, nil
	}
	if id > c.maxID || id%2 == 0 {
		return nil, fmt.Errorf("%w: stream %d is idle", ErrStreamID, id)
	}
	return nil, nil
}

func (c *Conn) ping(f *http2.PingFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.spend(1); err != nil {
		return err
	}
	if f.IsAck() {
		c.clock.pong(f.Data)
		return nil
	}
	_ = c.framer.WritePing(true, f.Data) // into a buffer
	return c.reply()
}

func (c *Conn) rstStream(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.find(f.StreamID)
	switch {
	case err != nil:
	case s == nil:
		err = c.spend(1)
	default:
		err = c.hasty(s)
		s.kill(&ResetError{f.ErrCode})
	}
	return err
}

// hasty counts a stream that its client ends before it was served. The caller
// holds mu.
func (c *Conn) hasty(s *stream) error {
	now := time.Now()
	if now.Sub(s.began) < resetSoon && !c.resets.spend(1, now) {
		return ErrRapidReset
	}
	return nil
}
