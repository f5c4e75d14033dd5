package server

import (
	"fmt"
	"runtime/debug"

	"sluice/internal/pipeline"
)

// recovered logs a panic of an exchange, and is the error that it becomes.
func (l *Listener) recovered(x *pipeline.Exchange, value any) error {
	x.Identify()
	l.log.Error("an exchange panicked", "request_id", x.ID, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	return pipeline.NewError(pipeline.Internal, nil) // the cause is told
}

// fail makes an error the response of an exchange. What a handler left behind is
// closed, which may panic.
func (l *Listener) fail(x *pipeline.Exchange, err error) {
	defer func() {
		if value := recover(); value != nil {
			x.Response = nil
			pipeline.Fail(x, l.recovered(x, value))
		}
	}()
	pipeline.Fail(x, err)
}

// dispose closes a response that nobody reads: the error at hand is the one to
// tell.
func (l *Listener) dispose(x *pipeline.Exchange) {
	defer func() {
		if value := recover(); value != nil {
			_ = l.recovered(x, value)
		}
	}()
	_ = x.Response.Close()
}

// done tells the service that an exchange is over.
func (l *Listener) done(x *pipeline.Exchange) {
	defer func() {
		if value := recover(); value != nil {
			l.log.Error("the end of an exchange panicked", "request_id", x.ID, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
		}
	}()
	l.service.Done(x)
}

// counted tells of connections that were taken or have ended. What panics there
// must not cost the books a connection.
func (l *Listener) counted(listener string, delta int) {
	defer func() {
		if value := recover(); value != nil {
			l.log.Error("counting a connection panicked", "listener", listener, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
		}
	}()
	l.counts(listener, delta)
}
