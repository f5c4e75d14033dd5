package proxy

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
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
	x       *pipeline.Exchange
	side    *side
	forced  bool // the client has chosen the side
	watch   pipeline.Watch
	request message.Request // what any endpoint is asked
	path    string          // of it, below the base path
	host    string
	call    bool             // it is a call of gRPC
	try     pipeline.Attempt // the attempt under way
	turn    upstream.Turn    // of it
	tried   []*upstream.Endpoint
	// repeats is the budget of which the attempt under way has a place, being a
	// repetition; nil: it is none.
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

// attempt tries one endpoint, from start on, up to the head of its response. begun
// is false where there was none to try.
func (f *forward) attempt(start time.Time) (begun bool, err error) {
	if err := f.side.Group.Begin(&f.turn, f.x, f.tried, start); err != nil {
		return false, err
	}
	endpoint := f.turn.Endpoint
	f.x.Attempts++
	f.x.Upstream, f.x.Endpoint, f.x.Version = f.side.Group.Name(), endpoint.URL, f.version()
	f.request.Path, f.request.Host = joined(endpoint.BasePath, f.path), f.host
	if f.route.Rewrite.Host == "upstream" || f.host == "" {
		f.request.Host = endpoint.Host
	}
	if f.call {
		pipeline.KeepDeadline(&f.request.Fields, f.x.Until)
	}
	f.try = pipeline.Attempt{Request: &f.request, Watch: &f.watch}
	if f.side.Group.ProxyProtocol != "" {
		f.introduce()
	}
	f.try.Response.Fields = f.room
	if f.x.Informer != nil {
		f.try.Informer = f
	}
	returned := false
	defer func() {
		if !returned { // a body has panicked
			f.turn.Dropped(time.Now())
			f.end()
		}
	}()
	err = endpoint.Transport.RoundTrip(f.x.Context(), &f.try)
	returned = true
	now := time.Now()
	f.x.UpstreamTime += now.Sub(start)
	switch err = f.late(err); {
	case err == nil:
		f.turn.Answered(f.try.Response.Status, now)
	case atFault(err):
		f.turn.Failed(now)
	default:
		f.turn.Dropped(now)
	}
	if err != nil {
		f.turn.End()
	}
	return true, err
}

// version is the label of the release that is tried.
func (f *forward) version() string {
	if f.side.Version != "" {
		return f.side.Version
	}
	return f.turn.Endpoint.Version
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

// accept makes the response of the attempt, which has come now, the exchange's, or
// refuses it; a refused one is closed.
func (f *forward) accept(now time.Time) error {
	response := &f.try.Response
	offered := upgradeOf(response.Fields)
	if response.Tunnel != nil && !asked(upgradeFor(f.x.Request), offered) {
		_ = response.Close() // the error at hand is the one to tell
		f.broke()
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
	if f.x.Version != "" {
		response.Fields.Put(message.XBackendVersion, f.x.Version)
	}
	f.turn.Mark(f.x, response)
	f.tellAttempts(&response.Fields)
	switch {
	case response.Tunnel != nil:
		response.Tunnel = &tunnel{forward: f, Tunnel: response.Tunnel}
	case response.Body != nil:
		f.watch.Came() // until more is read
		f.downloading = response.Body
		response.Body = (*download)(f)
	default:
		f.end()
	}
	f.x.Response = response
	return nil
}

// broke ends an attempt whose response had come, by the endpoint's fault.
func (f *forward) broke() {
	f.turn.Broke(time.Now())
	f.end()
}

// end ends the exchange's forwarding. Only the first call counts.
func (f *forward) end() {
	f.ending.Do(func() {
		f.turn.End()
		f.giveBack()
		f.side.Group.Budget().Leave()
	})
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
