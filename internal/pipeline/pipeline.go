// Package pipeline is what an exchange passes through: handlers, middleware,
// the exchange itself, and the errors that end it. It knows no kind of
// middleware, no socket and no wire.
package pipeline

// Handler serves an exchange: it sets x.Response and returns nil, or returns
// an error and leaves x.Response nil. It never writes to the client; the engine
// does that, once.
//
// The response belongs to the exchange. A handler that replaces or drops one
// closes it.
type Handler interface {
	Serve(x *Exchange) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(x *Exchange) error

// Serve calls f.
func (f HandlerFunc) Serve(x *Exchange) error { return f(x) }

// Middleware puts a step in front of a handler. What it returns is shared by
// all exchanges of a route and safe for concurrent use.
type Middleware func(next Handler) Handler

// Chain puts middleware in front of a destination, the first one outermost.
func Chain(destination Handler, steps ...Middleware) Handler {
	for i := len(steps) - 1; i >= 0; i-- {
		destination = steps[i](destination)
	}
	return destination
}

// Service is what an engine calls for every exchange.
type Service interface {
	Handler
	// Done is called exactly once for an exchange, also for one that never
	// reached Serve, after its last byte went out or it failed. x is not used
	// afterwards.
	Done(x *Exchange)
}
