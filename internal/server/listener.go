package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"sluice/internal/certificate"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// Start binds the socket. Connections wait in its queue until Serve.
func (l *Listener) Start() error {
	socket, err := bind(l.address, l.listen)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.socket = socket
	return nil
}

// Serve accepts connections from now on, and serves new requests by m. It is
// called after every swap of the snapshot: requests that have begun keep the
// settings they began with. (With the adapter, connections whose time-outs or
// header limit are no longer the current ones close after their next response.)
// No connection is lost. After Release it does nothing.
//
// secure is what handshakes show from now on, where m has TLS; else nil. The
// protocols in it are m's.
func (l *Listener) Serve(m *model.Listener, secure *certificate.Serving) {
	if secure != nil {
		shown := *secure
		shown.Protocols = negotiable(m)
		shown.Block = func(hello *tls.ClientHelloInfo, wait func()) { netloop.BlockIn(hello.Conn, wait) }
		l.handshake.Use(shown)
	}
	l.mu.Lock()
	if l.socket == nil {
		l.mu.Unlock()
		panic("BUG: Serve before Start")
	}
	start := !l.ending.Load() && l.begin(m)
	l.mu.Unlock()
	if start {
		l.startEngine()
	}
}

// begin accepts connections, and serves new requests by m. l.mu is held; where
// the engine is to be started, the caller does that without.
func (l *Listener) begin(m *model.Listener) (startEngine bool) {
	l.model.Store(m)
	l.turnOut(m)
	l.speakQUIC(m)
	if l.driver != nil {
		first := l.starting == nil
		if first {
			l.starting = make(chan struct{})
			l.tasks++
		}
		return first
	}
	before := l.generation
	if before != nil && before.settings == settingsOf(m) {
		return false
	}
	l.generation = newGeneration(l, m)
	l.tasks++
	go l.generation.serve()
	if before != nil {
		before.retire()
		return false
	}
	l.tasks++
	go l.accept(l.socket)
	return false
}

// Release ends the listener: it accepts no more, closes idle connections, and
// lets what is under way finish; responses carry Connection: close from now on.
// Where another socket of the Ports serves a part of its address, as after a
// change from one interface to all, nobody must notice: there idle connections
// may stay for one more request, for a while. It does not block; a second call
// does nothing.
func (l *Listener) Release() { l.release(false) }

// release is Release, and with handed for a process whose socket another one
// serves by now.
func (l *Listener) release(handed bool) {
	l.mu.Lock()
	if l.ending.Load() {
		l.mu.Unlock()
		return
	}
	shared := l.socket != nil && !handed && l.socket.shared()
	start := shared && !l.accepting() && l.begin(l.model.Load()) // never served, but clients may have come here instead of there
	l.patient.Store(handed || shared)
	l.ending.Store(true)
	close(l.ended)
	l.speakQUIC(l.model.Load())
	accepting := l.accepting()
	l.mu.Unlock()
	if start {
		l.startEngine()
	}
	switch {
	case accepting:
		l.endAccepting()
		if !shared {
			<-l.shut // soon: who accepts is awake
		}
	case l.socket != nil:
		l.discard()
	}
	if shared {
		time.AfterFunc(l.limits.patience, l.lose)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep()
	l.settle()
}

// discard closes the socket of a listener that never served.
func (l *Listener) discard() {
	if err := l.socket.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		l.log.Warn("a socket did not close cleanly", "listener", l.model.Load().Name, "error", err)
	}
	if !l.socket.old { // else it is still the other process's
		l.socket.remove()
	}
	close(l.shut)
}

// lose ends the patience with idle connections.
func (l *Listener) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.patient.Store(false)
	l.sweep()
}

// Yield is Release for a process whose socket another one serves by now: no
// client must notice. Idle connections stay until they have had one more
// request, whose response says that they close. Yield waits until nothing is
// left, or ctx ends; then Shutdown is to be called.
func (l *Listener) Yield(ctx context.Context) {
	l.release(true) //nolint:contextcheck // refusals outlive this call
	select {
	case <-l.quiet:
	case <-ctx.Done():
	}
}

// Quiet is closed when the listener was released and nothing is left of it.
func (l *Listener) Quiet() <-chan struct{} { return l.quiet }

// Shutdown is Release for a process that ends: it waits until every exchange
// and tunnel is done, or until ctx ends; then it ends the rest, and says so with
// an error that wraps ctx's cause. Exchanges get a moment to answer 503, so it
// may return a little after ctx; one that notices nothing is not waited for.
func (l *Listener) Shutdown(ctx context.Context) error {
	l.Release() //nolint:contextcheck // refusals outlive this call
	l.lose()
	select {
	case <-l.quiet:
		return nil
	case <-ctx.Done():
	}
	count, busy := l.interrupt()
	if !busy || !l.quietWithin(l.limits.answer) {
		l.cut()
		l.quietWithin(l.limits.end)
	}
	if count == 0 {
		return nil // there was no exchange on those that were cut
	}
	return fmt.Errorf("listener %s: %d connections were ended: %w", l.model.Load().Name, count, context.Cause(ctx))
}

// errStopped ends exchanges that outlast the drain time.
var errStopped = errors.New("the gateway stopped before the exchange was done")

func (l *Listener) isQuiet() bool {
	select {
	case <-l.quiet:
		return true
	default:
		return false
	}
}

func (l *Listener) quietWithin(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-l.quiet:
		return true
	case <-timer.C:
		return false
	}
}

// interrupt ends every exchange, and tells how many there were. busy says that
// something is under way: one of those, or the last bytes of one that is over.
func (l *Listener) interrupt() (count int, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		of := c.stands()
		if of.active.Load() {
			count++
		}
		busy = busy || of.busy.Load() && !of.parting.Load()
		stopped := pipeline.NewError(pipeline.Overloaded, errStopped)
		stopped.Detail = "The gateway is stopping."
		stopped.Close = true
		c.interrupt(stopped)
	}
	return count, busy
}

// cut ends every connection.
func (l *Listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		of := c.stands()
		c.kill(of.busy.Load() && !of.tunnel.Load())
	}
}

// sweep closes idle connections of a listener that ends, unless it is patient
// with them. A connection on which a request has arrived is not idle, though
// nobody may have read it yet. One that is new and silent may have a request on
// its way, and gets a moment. One that only waits for its client to close is not
// worth waiting for. l.mu is held.
func (l *Listener) sweep() {
	young := false
	for c := range l.conns {
		c.retire()
		switch of := c.stands(); {
		case of.parting.Load():
			c.hasten()
		case of.busy.Load() || l.patient.Load():
		case of.served.Load() || time.Since(of.since) >= l.limits.fresh:
			c.closeIdle()
		default:
			young = true
		}
	}
	if young && !l.sweeping {
		l.sweeping = true
		time.AfterFunc(l.limits.fresh, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.sweeping = false
			l.sweep()
		})
	}
}

// settle notes that nothing is left. l.mu is held.
func (l *Listener) settle() {
	if l.tasks > 0 || !l.ending.Load() {
		return
	}
	if !l.isQuiet() {
		close(l.quiet)
	}
}

// leave ends one of the tasks that Shutdown waits for.
func (l *Listener) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks--
	l.settle()
}

// Addr is the address of the socket; nil before Start.
func (l *Listener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket == nil {
		return nil
	}
	return l.socket.Addr()
}

// File returns a duplicate of the listening socket, for a process that takes
// over; the caller closes it. From then on the file of a Unix socket is the
// other process's and stays when this listener ends.
func (l *Listener) File() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket == nil || l.ending.Load() {
		return nil, fmt.Errorf("listener %s has no socket: %w", l.model.Load().Name, net.ErrClosed)
	}
	file, err := l.socket.duplicate()
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", l.model.Load().Name, err)
	}
	l.handed = true
	return file, nil
}

// TakeBack undoes a File that came to nothing: no other process has the socket.
func (l *Listener) TakeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handed = false
}

// Status is what people see of a listener.
type Status struct {
	Name        string `json:"name"`
	Address     string `json:"address"` // that of the socket, so with the port that port 0 became
	Connections int    `json:"connections"`
	Tunnels     int64  `json:"tunnels"` // of the connections
	Refused     int64  `json:"refused"` // connections past limits.connections, ever
	Failed      int64  `json:"failed"`  // connections without a PROXY header or whose handshake failed, ever
}

// Status tells how the listener is.
func (l *Listener) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := Status{Name: l.model.Load().Name, Address: l.address, Connections: len(l.conns), Tunnels: l.tunnels.Load(), Refused: l.refused.Load(), Failed: l.failed.Load()}
	if l.socket != nil && l.socket.path == "" {
		status.Address = l.socket.Addr().String()
	}
	return status
}
