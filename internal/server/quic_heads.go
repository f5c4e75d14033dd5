package server

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlogwriter"

	"sluice/internal/pipeline"
)

// headGrace is how long the library may take from a header to its handler, which
// follows at once on the same goroutine: after that it has refused the request.
const headGrace = time.Second

// heads tells of the requests of a connection of HTTP/3 that the library refuses
// by itself, which it tells nobody but a trace: that has each header that was read,
// and those that no handler follows were refused. It is the trace of a connection
// and a recorder of it.
type heads struct {
	refused func(r *http.Request, why *pipeline.Error) // set before the first header

	mu       sync.Mutex
	asked    int // for recorders
	awaiting map[quic.StreamID]*head
	serving  map[quic.StreamID]bool // their handlers run
	looks    bool                   // look is due
}

// head is a header that was read, as far as it could be.
type head struct {
	request *http.Request
	size    int // of the block, or of its fields (RFC 9114 4.2.2)
	since   time.Time
}

func newHeads() *heads {
	return &heads{awaiting: make(map[quic.StreamID]*head), serving: make(map[quic.StreamID]bool)}
}

// AddProducer gives the first who asks nothing: that is QUIC itself, which would
// tell of every packet.
func (h *heads) AddProducer() qlogwriter.Recorder {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked++; h.asked == 1 {
		return nil
	}
	return h
}

// Close does nothing.
func (h *heads) Close() error { return nil }

// RecordEvent notes a header. Trailers come while their handler runs.
func (h *heads) RecordEvent(event qlogwriter.Event) {
	parsed, ok := event.(qlog.FrameParsed)
	if !ok {
		return
	}
	frame, ok := parsed.Frame.Frame.(qlog.HeadersFrame)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.serving[parsed.StreamID] {
		return
	}
	request, size := draft(frame.HeaderFields)
	h.awaiting[parsed.StreamID] = &head{request, max(size, parsed.Raw.PayloadLength), time.Now()}
	if !h.looks {
		h.looks = true
		time.AfterFunc(headGrace, h.look)
	}
}

// draft is a request as far as its header is valid, and the size of its fields.
func draft(fields []qlog.HeaderField) (r *http.Request, size int) {
	r = &http.Request{Proto: "HTTP/3.0", ProtoMajor: 3, Header: http.Header{}, ContentLength: -1}
	for _, field := range fields {
		size += len(field.Name) + len(field.Value) + 32
		if field.InvalidName || field.InvalidValue {
			continue
		}
		switch field.Name {
		case ":method":
			r.Method = field.Value
		case ":authority":
			r.Host = field.Value
		case ":path":
			r.RequestURI = field.Value
		case "user-agent", "referer":
			r.Header.Add(field.Name, field.Value)
		}
	}
	return r, size
}

// begin says that a handler follows; false: it is too late for that, the request
// was told of as refused.
func (h *heads) begin(stream quic.StreamID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.awaiting[stream] == nil {
		return false
	}
	delete(h.awaiting, stream)
	h.serving[stream] = true
	return true
}

// end says that the handler has returned.
func (h *heads) end(stream quic.StreamID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.serving, stream)
}

// look tells of what was refused a while ago.
func (h *heads) look() {
	h.mu.Lock()
	var over []*head
	for stream, head := range h.awaiting {
		if time.Since(head.since) >= headGrace {
			over = append(over, head)
			delete(h.awaiting, stream)
		}
	}
	h.looks = len(h.awaiting) > 0
	if h.looks {
		time.AfterFunc(headGrace, h.look)
	}
	h.mu.Unlock()
	h.tell(over)
}

// over tells of the rest: the connection has ended, and no handler runs.
func (h *heads) over() {
	h.mu.Lock()
	rest := make([]*head, 0, len(h.awaiting))
	for _, head := range h.awaiting {
		rest = append(rest, head)
	}
	clear(h.awaiting)
	h.mu.Unlock()
	h.tell(rest)
}

func (h *heads) tell(refused []*head) {
	for _, head := range refused {
		word := pipeline.BadRequest
		if head.size > quicHeaderBytes {
			word = pipeline.HeaderTooLarge
		}
		h.refused(head.request, pipeline.NewError(word, errRefusedHead))
	}
}

var errRefusedHead = errors.New("the header is malformed, or did not come whole")

// streamOf is the number of a request's stream of HTTP/3.
func streamOf(r *http.Request) (quic.StreamID, bool) {
	body, ok := r.Body.(interface{ StreamID() quic.StreamID })
	if !ok {
		return 0, false
	}
	return body.StreamID(), true
}
