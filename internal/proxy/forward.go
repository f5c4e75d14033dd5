package proxy

import (
	"io"
	"sync"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
	"sluice/internal/rpc"
	"sluice/internal/upstream"
)

// The room for fields beyond the client's in what an endpoint is asked, and in
// its answer. Where there are more, they are allocated.
const (
	requestRoom  = 7
	responseRoom = 12
)

// forward is the forwarding of one exchange, in one piece of memory: what the
// endpoint is asked, what it answers, and the time-outs. It belongs to the
// exchange and is not used again.
type forward struct {
	*destination
	x      *pipeline.Exchange
	side   *side // whose budget has the exchange in flight; nil: none's
	asked  *side // which lets the exchange come; nil: none yet
	forced bool  // the client has chosen the side
	watch  pipeline.Watch
	// request is what the first endpoint is asked. It does not change from then on:
	// an attempt that was given up may still look at it.
	request message.Request
	path    string           // of it, below the base path
	host    string           // of it; empty: the endpoint's
	call    bool             // it is a call of gRPC
	try     pipeline.Attempt // the attempt under way
	turn    upstream.Turn    // of it
	tried   []*upstream.Endpoint
	// repeats is the budget of which the attempt under way, or the one that is waited
	// for, has a place, being a repetition; nil: it is none.
	repeats *resilience.Budget
	ending  sync.Once // of the exchange

	uploading   io.ReadCloser  // the client's body; nil: none
	left        int64          // bytes of it to come, or message.Unknown
	kept        *replay        // nil: it cannot be sent again once it is read
	downloading io.ReadCloser  // the endpoint's body; nil once nobody may touch it
	over        error          // what reading it gives then
	room        message.Fields // for the fields of an answer
}

func newForward(d *destination, x *pipeline.Exchange) *forward {
	f := &forward{destination: d, x: x}
	f.request.Fields = x.TakeRoom(len(x.Request.Fields) + requestRoom)
	f.room = x.TakeRoom(responseRoom)
	return f
}

// take makes a side the one that is tried, where the exchange is in flight from now
// on.
func (f *forward) take(s *side) {
	if f.side != nil {
		f.side.Group.Budget().Leave()
	}
	f.side = s
	s.Group.Budget().Enter()
}

// end ends the exchange's forwarding. Only the first call counts.
func (f *forward) end() {
	f.ending.Do(func() {
		f.turn.End()
		f.giveBack()
		f.side.Group.Budget().Leave()
	})
}

// broke ends an attempt whose response had come, by the endpoint's fault.
func (f *forward) broke() {
	f.turn.Broke(time.Now())
	f.end()
}

// returned ends a call whose messages have all come: its code is in the trailers.
func (f *forward) returned() {
	if code, there := f.code(); there {
		f.turn.Ended(rpc.StatusOf(code), time.Now())
	}
	f.end()
}

// code is the code of a call at its end.
func (f *forward) code() (code string, there bool) {
	if f.try.Response.Trailer == nil {
		return "", false
	}
	return f.try.Response.Trailer().Find(grpcStatus)
}

// fail ends the forwarding with an error.
func (f *forward) fail(err error) error {
	f.kept.settle(f.x.Attempts > 0) // else a fallback may read the body
	f.end()
	if !f.wantsAttempts() {
		return err
	}
	told := *pipeline.AsError(err) // an error may be that of many exchanges
	told.Fields = told.Fields.Clone()
	f.tellAttempts(&told.Fields)
	return &told
}

// late is the error of a call that fails once its time is over: the endpoint, which
// was given what was left of that, may end it first.
func (f *forward) late(err error) error {
	if err != nil && f.call && atFault(err) {
		if over := f.watch.Expired(); over != nil {
			return over
		}
	}
	return err
}

// lateCode is late for a call that ended with a code; nil: it is the endpoint's own.
func (f *forward) lateCode(code string) error {
	if code != rpc.DeadlineExceeded.Field() {
		return nil
	}
	return f.watch.Expired()
}

// atFault tells whether an error is the endpoint's fault.
func atFault(err error) bool { return pipeline.AsError(err).Fault == pipeline.Upstream }
