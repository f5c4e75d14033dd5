package server

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"sluice/internal/model"

	"golang.org/x/sys/unix"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// errEnding closes connections of a listener that ends.
var errEnding = errors.New("the listener has ended")

// client is a connection to a client that speaks HTTP/1.1 with the engine. It
// is small: at rest nothing else of the connection is there.
type client struct {
	standing
	socket   netloop.Conn // for whoever asks from outside
	conn     netloop.Conn // the socket, or TLS over it: for the connection's tasks alone
	listener *Listener
	peer     netip.AddrPort
	peerText string
	expires  time.Time             // when it is too old for another request; zero: never
	lineEnd  bool                  // the empty line that may stand before a request has come, and nothing behind it
	opened   bool                  // what comes before the first request has come
	moved    bool                  // another member goes on with the connection
	security *security             // nil: without TLS
	hungUp   func()                // hangUp, so that watching needs no allocation
	local    func() netip.AddrPort // localAddress, for exchanges
	target   netip.AddrPort        // where the client came to, as a PROXY header tells; invalid: here
	exchange atomic.Pointer[exchange]
}

// taken makes a new connection a client, or refuses it.
func (l *Listener) taken(conn netloop.Conn) bool {
	m := l.model.Load()
	c := &client{socket: conn, conn: conn, listener: l}
	c.hungUp, c.local = c.hangUp, c.localAddress
	c.peer = addrPort(conn.RemoteAddr())
	c.peerText = pipeline.PeerText(c.peer)
	if age := m.Timeouts.MaxAge; age > 0 {
		c.expires = time.Now().Add(jittered(age))
	}
	conn.SetData(c)
	if l.enter(c, m) {
		return true
	}
	if inner, err := conn.Detach(); err == nil {
		l.refuse(inner, c.peer, m)
	}
	return false
}

// ageSpread is by how much the age at which connections close differs either
// way, so that those which began together do not end together.
const ageSpread = 0.1

func jittered(age time.Duration) time.Duration {
	return time.Duration(float64(age) * (1 - ageSpread + 2*ageSpread*rand.Float64())) //nolint:gosec // G404: nobody gains by guessing it
}

// left is told of a connection that is closed, or is a tunnel now.
func (l *Listener) left(conn netloop.Conn) {
	if c, ok := conn.Data().(*client); ok && !c.moved {
		l.drop(c)
	}
}

// firstRest is how long a new connection may be silent.
func (l *Listener) firstRest() time.Duration { return l.model.Load().Timeouts.ReadHeader }

// serve is the netloop.Handler of the listener's connections: it serves what
// has come.
func (l *Listener) serve(conn netloop.Conn) (rest bool, until time.Time) {
	c, ok := conn.Data().(*client)
	if !ok {
		panic("BUG: a connection that was not taken")
	}
	c.busy.Store(true)
	in := l.inputs.get()
	in.begin(c.conn, &l.heads)
	defer func() {
		in.end()
		l.inputs.put(in)
	}()
	defer func() {
		if !rest && c.security != nil {
			_ = c.conn.Close() // tells the client that this is the end, where it can
		}
	}()
	more := true
	if !c.opened {
		if !c.open(in) {
			return false, time.Time{}
		}
		more = in.buffered() > 0 || c.pending() // else the handshake is all so far
	}
	for ; more; more = in.buffered() > 0 || c.pending() {
		if !c.next(in) {
			return false, time.Time{}
		}
		c.served.Store(true)
	}
	c.busy.Store(false)
	if l.ending.Load() && !l.patient.Load() && !conn.Stale() && c.served.Load() {
		return false, time.Time{} // it missed the sweep
	}
	return true, c.restUntil()
}

// localAddress is the Local of the connection's exchanges. It may ask the system.
func (c *client) localAddress() netip.AddrPort {
	if c.target.IsValid() {
		return c.target
	}
	return addrPort(c.conn.LocalAddr())
}

// altSvc is the Alt-Svc of responses, empty for none.
func (c *client) altSvc() string {
	if c.security == nil {
		return ""
	}
	return c.listener.altSvc()
}

// pending tells whether TLS has something that was not read yet: the socket will
// not tell of it.
func (c *client) pending() bool { return c.security != nil && c.security.tls.Pending() }

// restUntil is when the connection is closed if nothing comes.
func (c *client) restUntil() (until time.Time) {
	timeouts := &c.listener.model.Load().Timeouts
	timeout := timeouts.Idle
	if !c.served.Load() {
		timeout = timeouts.ReadHeader
		if c.listener.ending.Load() { // it missed the sweep, and its request may be on its way
			timeout = c.listener.limits.fresh
		}
	}
	if timeout > 0 {
		until = c.conn.Executor().Now().Add(timeout)
	}
	return until
}

// next serves one request; false says that the connection is not to be used for
// another.
func (c *client) next(in *input) bool {
	e := newExchange(c, in)
	err := e.readHead(in)
	if err == nil && !e.Listener.Speaks(model.H1) {
		err = pipeline.NewError(pipeline.BadVersion, errors.New("the listener does not speak HTTP/1.1"))
	}
	if err == nil && unverified(e.Listener, e.ClientCertificate) {
		err = refuseUnverified()
	}
	if err == nil {
		return e.run()
	}
	if errors.Is(err, errLineEnd) {
		return true
	}
	e.end(err)
	return false
}

// end ends an exchange whose head did not come whole.
func (e *exchange) end(err error) {
	var broken *wire.Error
	var refusal *pipeline.Error
	switch {
	case errors.Is(err, errNoRequest):
	case errors.As(err, &refusal):
		e.refuse(refusal)
	case errors.As(err, &broken):
		e.refuse(refusalOf(broken))
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.refuse(pipeline.NewError(pipeline.RequestTimeout, errors.New("read_header is over")))
	case errors.Is(err, io.EOF):
		e.refuse(pipeline.NewError(pipeline.BadRequest, errors.New("the client closed in the middle of a head")))
	default:
		e.lost(err)
	}
}

// refusalOf is what the client is told of a message that is none.
func refusalOf(broken *wire.Error) *pipeline.Error {
	word := pipeline.BadRequest
	switch broken.Kind {
	case wire.Malformed:
	case wire.BadVersion:
		word = pipeline.BadVersion
	case wire.NotImplemented:
		word = pipeline.NotImplemented
	case wire.URITooLong:
		word = pipeline.URITooLong
	case wire.HeaderTooLarge:
		word = pipeline.HeaderTooLarge
	}
	e := pipeline.NewError(word, broken)
	e.Detail = pipeline.Sentence(broken.Rule)
	e.Close = true
	return e
}

// hangUp runs when the client has closed while an exchange is under way.
func (c *client) hangUp() {
	if e := c.exchange.Load(); e != nil {
		e.ctx.Cancel(pipeline.ErrClientGone)
	}
}

// part ends the connection so that the client can read the last answer: bytes
// that arrive at a closed socket are answered with a reset, which may take the
// answer away (RFC 9112 9.6).
func (c *client) part() {
	c.parting.Store(true)
	if c.conn.CloseWrite() != nil {
		return
	}
	c.conn.SetReadDeadline(time.Now().Add(c.listener.limits.linger))
	if c.listener.ending.Load() { // after the deadline was set: whoever ends the listener looks the other way round
		c.conn.SetReadDeadline(time.Now().Add(c.listener.limits.answer))
	}
	for left := int64(lingerBytes); left > 0; {
		if c.conn.Readable() != nil { // without a buffer: many may linger
			return
		}
		buffer := c.listener.heads.get()
		n, err := c.conn.Read(buffer[:])
		c.listener.heads.put(buffer)
		if err != nil {
			return
		}
		left -= int64(n)
	}
}

// post runs f where the connection's tasks run, unless that has stopped.
func (c *client) post(f func()) { c.socket.Executor().Post(f) }

// retire does nothing: the next response says so.
func (c *client) retire() {}

// closeIdle closes the connection, unless something has arrived. That is looked
// for before and after: what is taken in between made the connection busy.
func (c *client) closeIdle() {
	c.post(func() {
		if !c.busy.Load() && !arrived(c.socket.Control) && !c.busy.Load() {
			c.socket.Interrupt(errEnding)
		}
	})
}

// arrived tells whether bytes wait to be read on a socket; control is the Control
// of a netloop.Conn, or of a syscall.RawConn.
func arrived(control func(f func(descriptor uintptr)) error) (found bool) {
	_ = control(func(descriptor uintptr) { // fails on a closed connection only
		n, _, err := unix.Recvfrom(int(descriptor), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		found = err == nil && n > 0
	})
	return found
}

// hasten bounds the lingering.
func (c *client) hasten() {
	c.post(func() { c.socket.SetReadDeadline(time.Now().Add(c.listener.limits.answer)) })
}

// interrupt ends the exchange under way, if there is one.
func (c *client) interrupt(cause error) {
	c.post(func() {
		if e := c.exchange.Load(); e != nil {
			e.ctx.Cancel(cause)
			_ = e.content.Close() // who waits for the client's body does not wait for the context
		}
	})
}

// kill ends the connection under its task, which closes it when it notices.
func (c *client) kill(reset bool) {
	c.post(func() {
		if e := c.exchange.Load(); e != nil {
			e.ctx.Cancel(errEnding)
		}
		_ = c.socket.Control(func(descriptor uintptr) { // fails on a closed connection only
			if reset {
				_ = unix.SetsockoptLinger(int(descriptor), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			} else {
				_ = unix.Shutdown(int(descriptor), unix.SHUT_WR)
			}
		})
		c.socket.Interrupt(errEnding)
	})
}

var _ member = (*client)(nil)

// exhausted is what clients are told for whom there is no descriptor: nothing
// where they speak TLS, as past limits.connections.
func (l *Listener) exhausted() []byte {
	if l.model.Load().TLS != nil {
		return nil
	}
	const document = `{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"Too many connections.","error":"overloaded"}`
	return []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: " + decimal(int64(len(document))) + "\r\n\r\n" + document)
}
