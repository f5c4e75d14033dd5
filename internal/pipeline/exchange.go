package pipeline

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
)

// Exchange is one request with its response, from first byte to log line. It
// belongs to the goroutine that serves it; whatever outlives it takes a copy.
type Exchange struct {
	Request  *message.Request
	Response *message.Response // nil until a handler sets it

	Listener *model.Listener // where it came in
	Peer     netip.AddrPort  // the other end of the connection; invalid on a Unix socket
	// Local returns this end of the connection, invalid where it has no address;
	// nil: it is not known. The one who serves the exchange calls it.
	Local func() netip.AddrPort
	// ClientIP is the client's address: the peer's, or what a trusted proxy
	// told. Unmapped and without zone.
	ClientIP netip.Addr
	// PeerTrusted tells whether the listener believes the peer.
	PeerTrusted bool
	ID          string // the request id; empty until Identify
	TraceID     string // of a valid traceparent, else empty

	// Observer is told when the exchange is over; it is of the snapshot that
	// serves the exchange, so that one exchange sees one configuration. nil
	// until Serve.
	Observer  Observer
	Route     *model.Route  // nil until one matched
	Params    []model.Param // of the route's pattern
	Consumer  string
	Upstream  string // names for the log line and the metrics
	Endpoint  string
	Version   string
	Attempts  int
	Principal *Principal
	// ClientCertificate is what the client has shown and the listener verified; nil:
	// none.
	ClientCertificate *message.ClientCertificate

	Start        time.Time
	UpstreamTime time.Duration // spent waiting for heads of responses
	BytesIn      int64         // of the request's body, as read from the client
	BytesOut     int64         // of the response's body, as written to the client

	// Until is when the exchange must be over; zero: never. The engine holds the
	// writing of the response to it. At first it is what the client of a call set
	// (grpc-timeout); Enter adds what the route does.
	Until time.Time

	// Status is what the log line and the metrics have as the status where that is
	// not the response's, 0 else: a call's is 200, whatever became of it.
	Status int

	Err *Error // what ended it, also when the response had begun

	// Informer sends informational responses (1xx) to the client at once; nil
	// where the client's protocol has none. Set by the engine.
	Informer Informer

	// Standing is how the exchange stands with the tightest of the limits that it has
	// met; without a policy it has met none.
	Standing Standing

	ctx      context.Context
	peerText string
	room     message.Fields // the request's part of what GiveRoom gave; within its capacity what is free
	atEnd    []func()
	waited   time.Duration // in Wait
}

// Enter makes a route the exchange's, whose total_timeout holds from here on.
func (x *Exchange) Enter(route *model.Route, params []model.Param) {
	x.Route, x.Params = route, params
	if total := route.Timeouts.Total; total > 0 {
		start := x.Start
		if start.IsZero() {
			start = time.Now()
		}
		x.Until = Earlier(x.Until, start.Add(total))
	}
}

// AtEnd has end called once the exchange is over: its last byte went out, or it failed.
func (x *Exchange) AtEnd(end func()) { x.atEnd = append(x.atEnd, end) }

// End calls what AtEnd was given, the last one first. The service does that when it is
// told that the exchange is over.
func (x *Exchange) End() {
	for n := len(x.atEnd); n > 0; n = len(x.atEnd) {
		end := x.atEnd[n-1]
		x.atEnd = x.atEnd[:n-1]
		end()
	}
}

// Observer takes what an exchange leaves: its log line and its metrics.
type Observer interface {
	Observe(x *Exchange)
}

// Principal is who a request was authenticated as. It may be that of many exchanges:
// nobody changes it.
type Principal struct {
	Name   string // of the consumer; empty: none
	Tier   string // alike
	Groups []string
	Claims map[string]any // of a token, with numbers as json.Number
}

// Authenticate takes who a middleware has found the client to be. Where several have,
// the later one's word counts, and what it does not say is left as it is; groups are those
// that any of them names, and claims likewise.
func (x *Exchange) Authenticate(p *Principal) {
	if x.Principal != nil {
		p = x.Principal.with(p)
	}
	x.Principal, x.Consumer = p, p.Name
}

func (p *Principal) with(later *Principal) *Principal {
	name, tier := cmp.Or(later.Name, p.Name), cmp.Or(later.Tier, p.Tier)
	// What one of them says alone is shared, not copied.
	if name == later.Name && tier == later.Tier && len(p.Groups)+len(p.Claims) == 0 {
		return later
	}
	both := *later
	both.Name, both.Tier = name, tier
	switch {
	case len(later.Groups) == 0:
		both.Groups = p.Groups
	case len(p.Groups) > 0:
		both.Groups = slices.Concat(p.Groups, later.Groups)
	}
	switch {
	case len(later.Claims) == 0:
		both.Claims = p.Claims
	case len(p.Claims) > 0:
		both.Claims = maps.Clone(p.Claims)
		maps.Copy(both.Claims, later.Claims)
	}
	return &both
}

// NewExchange returns an exchange that ends with ctx: its cause is
// ErrClientGone when the client has left.
func NewExchange(ctx context.Context, request *message.Request, listener *model.Listener, peer netip.AddrPort, start time.Time) *Exchange {
	x := &Exchange{Request: request, Listener: listener, Peer: peer, Start: start}
	x.Init(ctx, PeerText(peer))
	return x
}

// Init is for engines that have the exchange as a part of something else: what
// NewExchange does beside its arguments. Peer is set; text is its PeerText.
func (x *Exchange) Init(ctx context.Context, text string) {
	x.ctx, x.peerText = ctx, text
	x.ClientIP = x.Peer.Addr().Unmap().WithZone("")
}

// GiveRoom gives the exchange the room that its engine has for fields. They begin with
// those of the request, whose list has the capacity that they have a length; what they
// have a capacity for beyond is free. Nothing else may use it.
func (x *Exchange) GiveRoom(room message.Fields) { x.room = room }

// TakeRoom is an empty list with room for n fields, the caller's alone: of what
// the engine has given, or else allocated.
func (x *Exchange) TakeRoom(n int) message.Fields {
	all := cap(x.room)
	left := all - n
	if left < len(x.room) { // it is taken from the end: the request's fields grow from the beginning
		return make(message.Fields, 0, n)
	}
	taken := x.room[left:left:all]
	x.room = x.room[:len(x.room):left]
	return taken
}

// AddRequestFields appends lines to those of the request.
func (x *Exchange) AddRequestFields(fields message.Fields) {
	x.growRequest(len(fields))
	x.Request.Fields = append(x.Request.Fields, fields...)
}

// growRequest has the list of the request's fields grow by n where it stands, if there is
// free room behind it.
func (x *Exchange) growRequest(n int) {
	fields := x.Request.Fields
	whole := len(fields) + n
	if whole <= cap(fields) || whole > cap(x.room) || len(fields) == 0 {
		return
	}
	if cap(fields) == len(x.room) && &fields[0] == &x.room[0] { // it was not allocated anew
		x.room = x.room[:whole]
		x.Request.Fields = x.room[:len(fields):whole]
	}
}

// PeerText is the peer's address without port, mapping and zone, empty where it
// has none.
func (x *Exchange) PeerText() string { return x.peerText }

// PeerText is the text of a peer's address, without port, mapping and zone; empty
// where it has none.
func PeerText(peer netip.AddrPort) string {
	if address := peer.Addr().Unmap().WithZone(""); address.IsValid() {
		return address.String()
	}
	return ""
}

// ClientText is ClientIP as text, empty where there is none.
func (x *Exchange) ClientText() string {
	switch {
	case x.ClientIP == x.Peer.Addr().Unmap().WithZone(""): // nearly always; it spares making the text
		return x.peerText
	case x.ClientIP.IsValid():
		return x.ClientIP.String()
	}
	return ""
}

// Context ends when the client has left or the gateway gives the exchange up.
func (x *Exchange) Context() context.Context { return x.ctx }

// Wait runs what may block on anything but the exchange's own connections: a
// disk, an authorisation service. Engines that share a thread between
// exchanges run it elsewhere meanwhile.
//
// The time that it takes counts in the route's timeout.
func (x *Exchange) Wait(block func()) {
	start := time.Now()
	defer func() { x.waited += time.Since(start) }()
	if engine, ok := x.ctx.(interface{ Block(f func()) }); ok {
		engine.Block(block)
		return
	}
	block()
}

// Waited is the time that the exchange has spent in Wait.
func (x *Exchange) Waited() time.Duration { return x.waited }

// WaitUntil is until when to wait, in Wait, for something that may take so long: no
// longer than until the exchange must be over, nor than earlier waits have left of the
// route's timeout.
func (x *Exchange) WaitUntil(maxWait time.Duration) time.Time {
	if x.Route != nil && x.Route.Timeouts.Response > 0 {
		maxWait = min(maxWait, x.Route.Timeouts.Response-x.waited)
	}
	return Earlier(time.Now().Add(maxWait), x.Until)
}

// Param returns the value of a path parameter, percent-encoded, or "".
func (x *Exchange) Param(name string) string {
	for i := range x.Params {
		if x.Params[i].Name == name {
			return x.Params[i].Value
		}
	}
	return ""
}
