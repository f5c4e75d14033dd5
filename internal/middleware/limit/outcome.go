package limit

import (
	"errors"
	"os"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
	"sluice/internal/rpc"
)

// swiftBody is how many bytes of a request's body come in a time that does not matter.
const swiftBody = 64 << 10

// outcomeOf is what the beginning of a response, or the error in its place, says of the
// load of the destination.
func outcomeOf(x *pipeline.Exchange, err error) resilience.Outcome {
	switch {
	case x.Attempts == 0: // the gateway's own
		return resilience.Failed
	case err != nil && late(err):
		return resilience.Dropped
	case err != nil:
		return resilience.Failed
	}
	r := x.Response
	switch status := statusOf(r); {
	case status == 503 || status == 504:
		return resilience.Dropped
	case status >= 500:
		return resilience.Failed
	case goesOn(r), uploads(x.Request): // how long it took was as somebody liked
		return resilience.Failed
	}
	return resilience.Served
}

// late tells whether an error is that of a destination that has too much to do.
func late(err error) bool {
	e := pipeline.AsError(err)
	switch e.Word {
	case pipeline.UpstreamTimeout, pipeline.Overloaded:
		return true
	case pipeline.UpstreamConnect: // no more than a full backlog, unless it was refused
		var slow interface{ Timeout() bool }
		return errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.As(e.Err, &slow) && slow.Timeout()
	default:
		return false
	}
}

// statusOf is the status of a response or, of a call that ended without a message, the one
// that its code stands for.
func statusOf(r *message.Response) int {
	if form, _ := rpc.FormOf(r.Fields.Get(message.ContentType)); form != rpc.None {
		if code, there := r.Fields.Find(rpc.StatusField); there {
			return rpc.StatusOf(code)
		}
	}
	return r.Status
}

// goesOn tells whether a response goes on for as long as either side likes. Calls are none:
// most of them are answered once.
func goesOn(r *message.Response) bool {
	form, _ := rpc.FormOf(r.Fields.Get(message.ContentType))
	return form == rpc.None && pipeline.Streams(r)
}

// uploads tells whether the client has taken its time to send the request.
func uploads(r *message.Request) bool {
	switch {
	case r.Body == nil:
		return false
	case r.Length == message.Unknown:
		return pipeline.CallOf(r) == rpc.None
	}
	return r.Length > swiftBody
}
