// Package proxy is the destination that forwards: it turns an exchange's
// request into what an endpoint is asked, sends it, and makes the answer the
// exchange's response (SPEC 4, step 7). It owns no connection, chooses by the
// upstream's balancing, and leaves writing to the engine.
package proxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/upstream"
)

// maxLoops is how often a request may pass this gateway.
const maxLoops = 10

// Gateway is what a destination knows of the gateway around it.
type Gateway struct {
	Pseudonym string // in Via (RFC 9110 7.6.3)
}

// New returns the handler that forwards a route's exchanges to an upstream. It
// never changes x.Request: middleware still sees the client's request when the
// response passes back.
//
// The response's body and tunnel hold the attempt; whoever takes the response
// reads the body to its end or closes it.
func New(route *model.Route, group *upstream.Group, gateway Gateway) pipeline.Handler {
	return &destination{route: route, group: group, gateway: gateway}
}

type destination struct {
	route   *model.Route
	group   *upstream.Group
	gateway Gateway
}

// Serve forwards one exchange.
func (d *destination) Serve(x *pipeline.Exchange) error {
	x.Upstream = d.group.Name()
	if d.loops(x.Request.Fields) > maxLoops {
		return pipeline.NewError(pipeline.LoopDetected, nil)
	}
	request, err := d.request(x)
	if err != nil {
		return err
	}
	w := newWatch(x, d.route.Timeouts)
	if request.Body != nil && request.Length != 0 {
		request.Body = &upload{watch: w, source: request.Body, left: request.Length}
	} else {
		w.sent()
	}
	x.Response, err = d.attempt(x, w, request)
	if err != nil {
		w.end()
		return err
	}
	return nil
}

// attempt tries one endpoint. request is not changed. The response ends the
// watch; an error does not.
func (d *destination) attempt(x *pipeline.Exchange, w *watch, request *message.Request) (*message.Response, error) {
	endpoint, err := d.group.Pick()
	if err != nil {
		return nil, err
	}
	x.Attempts++
	x.Endpoint, x.Version = endpoint.URL, endpoint.Version
	addressed := *request
	addressed.Path = joined(endpoint.BasePath, request.Path)
	if d.route.Rewrite.Host == "upstream" || addressed.Host == "" {
		addressed.Host = endpoint.Host
	}

	endpoint.Begin()
	start := time.Now()
	response, err := endpoint.Transport.RoundTrip(w.ctx, &addressed, w.informer(x.Inform))
	x.UpstreamTime += time.Since(start)
	if err == nil {
		err = d.accept(x, response)
	}
	if err != nil {
		endpoint.End(atFault(err))
		return nil, err
	}
	w.answered(pipeline.Streams(response))
	if endpoint.Version != "" {
		response.Fields.Put(message.XBackendVersion, endpoint.Version)
	}
	hold(response, w, endpoint)
	return response, nil
}

// accept makes an endpoint's response one for the client, or refuses it; a
// refused one is closed.
func (d *destination) accept(x *pipeline.Exchange, response *message.Response) error {
	offered := upgradeOf(response.Fields)
	if response.Tunnel != nil && !asked(upgradeFor(x.Request), offered) {
		_ = response.Close() // the error at hand is the one to tell
		return pipeline.NewError(pipeline.UpstreamProtocol, errors.New("the endpoint changed to a protocol that the client did not ask for"))
	}
	dropHops(&response.Fields)
	pipeline.AnnounceTrailers(&response.Fields)
	response.Trailer = pipeline.Trailers(response.Trailer, nil)
	if offered != "" && (response.Tunnel != nil || response.Status == statusUpgradeRequired) {
		response.Fields.Put(message.Upgrade, offered)
		response.Fields.Put(message.Connection, "Upgrade")
	}
	d.addVia(&response.Fields, message.HTTP11)
	return nil
}

// atFault tells whether an error is the endpoint's fault.
func atFault(err error) bool { return pipeline.AsError(err).Fault == pipeline.Upstream }

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

// addVia appends the gateway to Via; protocol is that of the message received.
func (d *destination) addVia(fields *message.Fields, protocol message.Protocol) {
	appendTo(fields, message.Via, strings.TrimPrefix(string(protocol), "HTTP/")+" "+d.gateway.Pseudonym)
}

// appendTo appends a member to a list field, and makes one line of it.
func appendTo(fields *message.Fields, id message.Name, member string) {
	var members []string
	for value := range fields.Values(id.String()) {
		if value != "" {
			members = append(members, value)
		}
	}
	fields.Put(id, strings.Join(append(members, member), ", "))
}

// timeout is the error of a time-out of the route.
func timeout(name string, after time.Duration) error {
	return pipeline.NewError(pipeline.UpstreamTimeout, fmt.Errorf("%s of %v", name, after))
}
