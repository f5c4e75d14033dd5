// Package server owns the listeners: sockets, connections, what a client may
// send and how fast, and the end of it all when a listener is released. It
// hands every request as a message to the pipeline and writes the response that
// comes back; it routes nothing, and knows neither upstreams nor documents.
//
// What comes before the first request is read by opening and introduction.
// HTTP/1.1 has two halves then. The engine reads and writes it by package wire on
// sockets of package netloop: client, exchange, input, content, answer. The adapter
// turns net/http's requests into messages and back (accept, adapter, body, conn,
// request, response), and is how the exchanges of HTTP/2 and HTTP/3 are served, too:
// multiplexed, quic, malformed, websocket. listener, member, socket, port, dropsyn and tunnel
// serve all of them.
package server

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/certificate"
	"sluice/internal/h2"
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// Options are what a listener is given by the program. They are read when the
// listener is first acquired; later ones under the same lease are not looked at.
type Options struct {
	// Service is called for every exchange: Serve, then Done exactly once.
	// Done is also called for a connection that is refused because of
	// limits.connections; the exchange then has an empty request.
	Service pipeline.Service
	Log     *slog.Logger // nil: nothing is logged
	// Listen opens a socket; a place for sockets that were handed over by
	// another process. nil: net.Listen. With that of a Ports an address can
	// change on its own port.
	Listen func(network, address string) (net.Listener, error)
	// Driver runs the engine: HTTP/1.1 by package wire. It is the caller's and
	// outlives the listener. nil: net/http serves, by an adapter.
	Driver netloop.Driver
	// Connections is told of every connection that is taken (1) and that has
	// ended (-1), by the name the listener had when it was taken. May be nil.
	Connections func(listener string, delta int)
}

// limits are the bounds that no document sets.
type limits struct {
	bodyGrace  time.Duration // how long a sender may wait before min_body_rate counts
	bodyCredit time.Duration // the most waiting that fast sending can earn
	drain      time.Duration // how long the rest of a small body is waited for
	linger     time.Duration // how long a closing connection reads on, for its client to read the answer
	fresh      time.Duration // how long a new connection without a byte is not idle while the listener ends
	answer     time.Duration // how long exchanges that outlast the drain time may still answer
	end        time.Duration // how long they may take to notice that they were cut
	patience   time.Duration // how long idle connections may stay while another socket serves their address
	handshake  time.Duration // how long connections that have begun may take to be made by then
}

func standard() limits {
	return limits{
		bodyGrace:  5 * time.Second,
		bodyCredit: time.Minute,
		drain:      5 * time.Second,
		linger:     5 * time.Second,
		fresh:      time.Second,
		answer:     250 * time.Millisecond,
		end:        time.Second,
		patience:   20 * time.Second,
		handshake:  20 * time.Millisecond,
	}
}

// keepAliveBody is the most of an unread request body that is read and thrown
// away to keep the connection; net/http's bound.
const keepAliveBody = 256 << 10

// Listener is an address that accepts connections. It is a lease: Start binds,
// Serve begins to accept and changes settings, Release ends it. Its methods are
// safe for concurrent use.
type Listener struct {
	address   string // as configured
	service   pipeline.Service
	log       *slog.Logger
	listen    func(network, address string) (net.Listener, error)
	counts    func(listener string, delta int) // see counted
	limits    limits
	clock     clock
	driver    netloop.Driver // nil: net/http serves
	inputs    buffers[input]
	heads     buffers[headBuffer]
	bodies    buffers[bodyBuffer]
	streams   *h2.Buffers
	model     atomic.Pointer[model.Listener] // what new requests are served by
	handshake *certificate.Handshake         // what connections over TLS begin with

	alternative atomic.Pointer[alternative] // Alt-Svc of responses over TLS; nil: none

	ending   atomic.Bool   // Release was called; written under mu
	ended    chan struct{} // closed with ending
	patient  atomic.Bool   // while ending: idle connections may stay for one more request
	shut     chan struct{} // closed when the socket is
	quiet    chan struct{} // closed when ending and nothing is left to wait for
	refused  atomic.Int64  // connections past limits.connections
	failed   atomic.Int64  // connections that did not come to a request
	tunnels  atomic.Int64
	refusals chan struct{} // a slot for each refusal under way

	mu         sync.Mutex
	socket     *socket             // nil until Start
	handed     bool                // another process has the socket too
	generation *generation         // of net/http; nil until Serve
	starting   chan struct{}       // of the engine: closed when acceptor is set, or never will be; nil until Serve
	datagrams  *datagrams          // nil where no HTTP/3 is spoken
	acceptor   netloop.Acceptor    // of the engine; not changed once starting is closed; nil: it does not accept
	conns      map[member]struct{} // taken and not yet closed
	tasks      int                 // goroutines and connections that Shutdown waits for
	sweeping   bool                // a sweep is due in a moment
}

// Acquire returns the listener of m's address, the live one if there is one;
// set holds it, and where m is for HTTP/3 that one's socket too, which a live
// listener may not have yet. Listeners on port 0 are told apart by name as well.
func Acquire(set *lease.Set, m *model.Listener, o Options) *Listener {
	l := lease.Acquire(set, key(m), func() *Listener { return newListener(m, o) })
	if speaksQUIC(m) {
		lease.Acquire(set, "HTTP/3 of "+key(m), func() *beside { return &beside{l} })
	}
	return l
}

// Same tells whether two configurations have one listener in common: it goes on
// when one replaces the other, whatever changes in its settings and its name.
func Same(a, b *model.Listener) bool { return key(a) == key(b) }

// key is what a listener is, over all its settings.
func key(m *model.Listener) string {
	if strings.HasSuffix(m.Address, ":0") && !strings.HasPrefix(m.Address, unixPrefix) {
		return "listener " + m.Name + " " + m.Address
	}
	return "listener " + m.Address
}

func newListener(m *model.Listener, o Options) *Listener {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.Connections == nil {
		o.Connections = func(string, int) {}
	}
	l := &Listener{
		address: m.Address, service: o.Service, log: o.Log, listen: o.Listen, driver: o.Driver, counts: o.Connections, limits: standard(),
		ended: make(chan struct{}), shut: make(chan struct{}), quiet: make(chan struct{}), refusals: make(chan struct{}, maxRefusals), conns: map[member]struct{}{},
	}
	l.streams = h2.NewBuffers()
	l.handshake = certificate.NewHandshake()
	l.model.Store(m)
	return l
}
