// Package proxy is the destination that forwards: it turns an exchange's
// request into what an endpoint is asked, sends it, and makes the answer the
// exchange's response (SPEC 4, step 7). It owns no connection, chooses by the
// upstream's balancing, and leaves writing to the engine.
package proxy

import (
	"strings"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/rpc"
	"sluice/internal/upstream"
)

// maxLoops is how often a request may pass this gateway.
const maxLoops = 10

// Gateway is what a destination knows of the gateway around it.
type Gateway struct {
	Pseudonym string // in Via (RFC 9110 7.6.3)
}

// Side is an upstream that a route leads to, the only one or one of a split.
type Side struct {
	Group   *upstream.Group
	Version string // of the split; empty: that of the endpoint counts
	Weight  int
	// Fallback serves while the upstream's circuit breaker is open; nil: nobody.
	Fallback pipeline.Handler
	// Admit is asked once for each exchange that has found an endpoint on this side,
	// before any attempt; its error ends the exchange, or keeps it on the side where it
	// was. nil: all may come.
	Admit func(x *pipeline.Exchange) error
	// Repeated is told of each repetition, and Exhausted of each that the budget of
	// the upstream forbade; nil: nobody.
	Repeated, Exhausted func()
}

// New returns the handler that forwards a route's exchanges to an upstream, or to
// those of a split. It never changes x.Request: middleware still sees the client's
// request when the response passes back.
//
// The response's body and tunnel hold the attempt; whoever takes the response
// reads the body to its end or closes it.
func New(route *model.Route, sides []Side, gateway Gateway) pipeline.Handler {
	d := &destination{route: route, gateway: gateway, via: map[message.Protocol]string{
		message.HTTP10: "1.0 " + gateway.Pseudonym,
		message.HTTP11: "1.1 " + gateway.Pseudonym,
		message.HTTP2:  "2 " + gateway.Pseudonym,
		message.HTTP3:  "3 " + gateway.Pseudonym,
	}}
	for i := range sides {
		d.sides = append(d.sides, newSide(&sides[i]))
	}
	return d
}

type destination struct {
	route   *model.Route
	sides   []*side
	gateway Gateway
	via     map[message.Protocol]string // what is appended to Via, by the protocol of the message; not changed
}

// Serve forwards one exchange.
func (d *destination) Serve(x *pipeline.Exchange) error {
	now := time.Now()
	s, forced := d.side(x, now)
	x.Upstream, x.Version = s.Group.Name(), s.Version
	if x.Request.Fields.Has(message.Via) && d.loops(x.Request.Fields) > maxLoops {
		return pipeline.NewError(pipeline.LoopDetected, nil)
	}
	f := newForward(d, x)
	f.forced = forced
	if err := d.request(x, &f.request); err != nil {
		return err
	}
	if f.path, f.host = f.request.Path, f.request.Host; d.route.Rewrite.Host == "upstream" {
		f.host = ""
	}
	limits := d.route.Timeouts
	if f.call = pipeline.CallOf(x.Request) != rpc.None; f.call {
		limits.Idle = limits.IdleStream
	}
	now = f.watch.Begin(limits, x.Start)
	f.watch.Bound(x.Until)
	f.watch.Spent(x.Waited())
	x.Until = f.watch.Total()
	if f.request.Body != nil && f.request.Length != 0 {
		f.uploading, f.left = f.request.Body, f.request.Length
		f.request.Body = (*upload)(f)
		f.keepBody()
	} else {
		f.watch.Sent(now)
	}
	f.take(s)
	if x.Waited() > 0 {
		if err := f.watch.Expired(); err != nil {
			return f.fail(err) // no endpoint is to blame for it
		}
	}
	err := f.run(now)
	if err != nil && x.Attempts == 0 && f.side.Fallback != nil && pipeline.AsError(err).Word == pipeline.CircuitOpen {
		x.Version = ""
		return f.side.Fallback.Serve(x)
	}
	return err
}

// loops is how often this gateway stands in Via.
func (d *destination) loops(fields message.Fields) int {
	n := 0
	for member := range fields.List(message.Via) {
		if parts := strings.Fields(member); len(parts) > 1 && parts[1] == d.gateway.Pseudonym {
			n++
		}
	}
	return n
}
