package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ports opens the TCP sockets of a process, and knows those that are open. With
// it an address can change on its own port, as from 127.0.0.1:80 to :80: the
// system refuses the new socket while the old one is open, and the old one has
// to stay until the new one serves. Other processes still cannot have a port
// that one of these sockets has. The zero value is ready; its methods are safe
// for concurrent use.
type Ports struct {
	mu     sync.Mutex
	open   map[*port]bool
	coming map[string]bool
}

// Expect names the addresses that will be listened on, as Listen is given them.
// What else is open is about to close, and does not keep a port from those.
func (p *Ports) Expect(addresses []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coming = map[string]bool{}
	for _, address := range addresses {
		p.coming[address] = true
	}
}

// Listen opens a socket, as net.Listen does.
func (p *Ports) Listen(network, address string) (net.Listener, error) {
	inner, err := listen(network, address, nil)
	if network == "tcp" && errors.Is(err, syscall.EADDRINUSE) {
		inner, err = p.share(address, err)
	}
	if err != nil {
		return nil, err
	}
	return p.Keep(address, inner), nil
}

// Keep takes in the socket of an address that was opened elsewhere, as by the
// process before, and returns what to use in its place.
func (p *Ports) Keep(address string, inner net.Listener) net.Listener {
	tcp, ok := inner.(*net.TCPListener)
	if !ok {
		return inner
	}
	kept := &port{TCPListener: tcp, address: address, bound: addrPort(tcp.Addr()), ports: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[*port]bool{}
	}
	p.open[kept] = true
	return kept
}

// share opens a socket on a port that sockets about to close have; refusal is
// what the system said to doing so without their leave. SO_REUSEPORT is on for
// the moment only: with it on for good, any process of the same user could take
// connections away.
func (p *Ports) share(address string, refusal error) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, refusal
	}
	var leave []*port
	for other := range p.open {
		if int(other.bound.Port()) == wanted.Port && !p.coming[other.address] {
			leave = append(leave, other)
		}
	}
	if len(leave) == 0 {
		return nil, refusal
	}
	defer func() {
		for _, other := range leave {
			_ = reusePort(other.TCPListener, 0) // what cannot be closed off is closed soon
		}
	}()
	for _, other := range leave {
		if err := reusePort(other.TCPListener, 1); err != nil {
			return nil, refusal
		}
	}
	inner, err := listen("tcp", address, func(_, _ string, raw syscall.RawConn) error { return setReusePort(raw, 1) })
	if err != nil {
		return nil, err
	}
	if tcp, ok := inner.(*net.TCPListener); ok {
		err = reusePort(tcp, 0)
	}
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	return inner, nil
}

// listen opens a plain TCP socket: one that offers Multipath TCP can neither
// share nor filter.
func listen(network, address string, control func(network, address string, raw syscall.RawConn) error) (net.Listener, error) {
	config := net.ListenConfig{Control: control}
	config.SetMultipathTCP(false)
	return config.Listen(context.Background(), network, address)
}

func reusePort(l *net.TCPListener, value int) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return setReusePort(raw, value)
}

func setReusePort(raw syscall.RawConn, value int) error {
	var failed error
	err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, value) })
	return errors.Join(err, failed)
}

// port is an open socket of Ports.
type port struct {
	*net.TCPListener
	address string // as configured
	bound   netip.AddrPort
	ports   *Ports
}

// Close closes the socket.
func (p *port) Close() error {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	delete(p.ports.open, p)
	return p.TCPListener.Close()
}

// shared tells whether another open socket takes some of the connections that
// this one could.
func (p *port) shared() bool {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	for other := range p.ports.open {
		if other != p && overlap(other.bound, p.bound) {
			return true
		}
	}
	return false
}

// overlap tells whether two addresses have some in common. That 0.0.0.0 has no
// IPv6 address does not count here.
func overlap(a, b netip.AddrPort) bool {
	return a.Port() == b.Port() && (a.Addr() == b.Addr() || a.Addr().IsUnspecified() || b.Addr().IsUnspecified())
}

// addrPort is one end of a connection, or where a socket listens; invalid where
// there is no such address, as on a Unix socket.
func addrPort(address net.Addr) netip.AddrPort {
	var end netip.AddrPort
	switch address := address.(type) {
	case *net.TCPAddr:
		end = address.AddrPort()
	case *net.UDPAddr:
		end = address.AddrPort()
	}
	return netip.AddrPortFrom(end.Addr().Unmap(), end.Port())
}
