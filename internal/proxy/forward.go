package proxy

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
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
	x        *pipeline.Exchange
	watch    pipeline.Watch
	request  message.Request  // what any endpoint is asked
	call     bool             // it is a call of gRPC
	try      pipeline.Attempt // the attempt under way
	endpoint *upstream.Endpoint
	ending   sync.Once // of the attempt

	uploading   io.ReadCloser  // the client's body; nil: none
	left        int64          // bytes of it to come, or message.Unknown
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

// attempt tries one endpoint, from start on. The exchange's response ends the
// attempt.
func (f *forward) attempt(start time.Time) error {
	endpoint, err := f.group.Pick()
	if err != nil {
		return err
	}
	f.endpoint = endpoint
	f.x.Attempts++
	f.x.Endpoint, f.x.Version = endpoint.URL, endpoint.Version
	f.request.Path = joined(endpoint.BasePath, f.request.Path)
	if f.route.Rewrite.Host == "upstream" || f.request.Host == "" {
		f.request.Host = endpoint.Host
	}
	if f.call {
		pipeline.KeepDeadline(&f.request.Fields, f.x.Until)
	}
	f.try.Request, f.try.Watch = &f.request, &f.watch
	if f.route.Upstream.ProxyProtocol != "" {
		f.introduce()
	}
	f.try.Response.Fields = f.room
	if f.x.Informer != nil {
		f.try.Informer = f
	}
	endpoint.Begin()
	returned := false
	defer func() {
		if !returned { // a body has panicked
			f.end(false)
		}
	}()
	err = endpoint.Transport.RoundTrip(f.x.Context(), &f.try)
	returned = true
	now := time.Now()
	f.x.UpstreamTime += now.Sub(start)
	if err = f.late(err); err == nil {
		err = f.accept(&f.try.Response, now)
	}
	if err != nil {
		f.end(atFault(err))
		return err
	}
	f.x.Response = &f.try.Response
	return nil
}

// introduce tells the attempt of the client, as far as that is known.
func (f *forward) introduce() {
	if f.x.ClientIP.IsValid() {
		f.try.Client = netip.AddrPortFrom(f.x.ClientIP, f.x.Peer.Port())
	}
	if f.x.Local != nil {
		f.try.Local = f.x.Local()
	}
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

// accept makes an endpoint's response, which has come now, one for the client, or
// refuses it; a refused one is closed.
func (f *forward) accept(response *message.Response, now time.Time) error {
	offered := upgradeOf(response.Fields)
	if response.Tunnel != nil && !asked(upgradeFor(f.x.Request), offered) {
		_ = response.Close() // the error at hand is the one to tell
		return pipeline.NewError(pipeline.UpstreamProtocol, errors.New("the endpoint changed to a protocol that the client did not ask for"))
	}
	f.watch.Answered(now, pipeline.Streams(response))
	dropHops(&response.Fields)
	pipeline.AnnounceTrailers(&response.Fields)
	response.Trailer = pipeline.Trailers(response.Trailer, nil)
	if offered != "" && (response.Tunnel != nil || response.Status == statusUpgradeRequired) {
		response.Fields.Put(message.Upgrade, offered)
		response.Fields.Put(message.Connection, "Upgrade")
	}
	appendTo(&response.Fields, message.Via, f.viaOf(response.Protocol))
	if f.endpoint.Version != "" {
		response.Fields.Put(message.XBackendVersion, f.endpoint.Version)
	}
	switch {
	case response.Tunnel != nil:
		response.Tunnel = &tunnel{forward: f, Tunnel: response.Tunnel}
	case response.Body != nil:
		f.watch.Came() // until more is read
		f.downloading = response.Body
		response.Body = (*download)(f)
	default:
		f.end(false)
	}
	return nil
}

// end ends the attempt, and tells whether it failed by the endpoint's fault.
// Only the first call counts.
func (f *forward) end(failed bool) {
	f.ending.Do(func() { f.endpoint.End(failed) })
}

// atFault tells whether an error is the endpoint's fault.
func atFault(err error) bool { return pipeline.AsError(err).Fault == pipeline.Upstream }

// Inform passes informational responses on; they count as bytes.
func (f *forward) Inform(status int, fields message.Fields) {
	f.watch.Touch()
	dropHops(&fields)
	appendTo(&fields, message.Via, f.viaOf(message.HTTP11)) // HTTP/1.0 has none
	f.x.Informer.Inform(status, fields)
}

// viaOf is the member of Via for a message of a protocol (RFC 9110 7.6.3).
func (d *destination) viaOf(protocol message.Protocol) string {
	if via, ok := d.via[protocol]; ok {
		return via
	}
	return d.via[message.HTTP11]
}
