package netloop

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// add takes a socket into the loop. After an error it is closed.
func (l *loop) add(descriptor int, remote net.Addr) (*loopConn, error) {
	if l.stopping {
		_ = unix.Close(descriptor)
		return nil, ErrStopped
	}
	if l.marks++; l.marks == 0 { // which listening sockets have
		l.marks++
	}
	c := &loopConn{loop: l, descriptor: descriptor, mark: l.marks, remote: remote}
	c.timer.owner = c
	if err := l.control(unix.EPOLL_CTL_ADD, descriptor, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLPRI|unix.EPOLLRDHUP|unix.EPOLLET, c.mark); err != nil {
		_ = unix.Close(descriptor)
		return nil, err
	}
	for descriptor >= len(l.conns) {
		l.conns = append(l.conns, make([]*loopConn, max(64, len(l.conns)))...)
	}
	l.conns[descriptor] = c
	l.load.Add(1)
	return c, nil
}

// forget takes a connection out of the table; its descriptor may be another's
// soon.
func (l *loop) forget(c *loopConn) {
	l.conns[c.descriptor] = nil
	l.load.Add(-1)
}

// Dial connects a socket.
func (l *loop) Dial(ctx context.Context, network, address string, deadline time.Time) (Conn, error) {
	family, to, err := l.socketAddress(network, address)
	if err != nil {
		return nil, err
	}
	c, err := l.dial(ctx, family, to, deadline)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: addrOf(to), Err: err}
	}
	return c, nil
}

// socketAddress is the function of that name, which is run aside where it may
// block.
func (l *loop) socketAddress(network, address string) (family int, to unix.Sockaddr, err error) {
	if network == "unix" || !strings.Contains(address, "%") {
		return socketAddress(network, address)
	}
	return l.zoned(network, address)
}

func (l *loop) zoned(network, address string) (family int, to unix.Sockaddr, err error) {
	l.Block(func() { family, to, err = socketAddress(network, address) })
	return family, to, err
}

func (l *loop) dial(ctx context.Context, family int, to unix.Sockaddr, deadline time.Time) (*loopConn, error) {
	descriptor, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if l.owner.reserve.beyond(descriptor) {
		_ = unix.Close(descriptor)
		return nil, errSpare
	}
	options(family, descriptor)
	err = unix.Connect(descriptor, to)
	under := errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR)
	if err != nil && !under {
		_ = unix.Close(descriptor)
		return nil, os.NewSyscallError("connect", err)
	}
	c, err := l.add(descriptor, addrOf(to))
	if err != nil {
		return nil, err
	}
	c.writable = !under
	guard := NewGuard(ctx, l, c)
	err = c.connected(l.at(deadline))
	guard.End()
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// connected waits until the connection is made or refused.
func (c *loopConn) connected(until int64) error {
	c.writeUntil = until
	if err := c.wait(&c.writable, &c.writer, &c.writeUntil); err != nil {
		return err
	}
	c.writeUntil = 0
	errno, err := unix.GetsockoptInt(c.descriptor, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = os.NewSyscallError("connect", unix.Errno(errno))
	}
	return err
}

// Adopt makes a socket of the standard library one of the loop.
func (l *loop) Adopt(conn net.Conn) (Conn, error) {
	if d, ok := conn.(*DetachedTLS); ok {
		return d.adopt(l)
	}
	descriptor, err := takeDescriptor(conn)
	if err != nil {
		return nil, err
	}
	if l.owner.reserve.beyond(descriptor) {
		_ = unix.Close(descriptor)
		return nil, errSpare
	}
	c, err := l.add(descriptor, conn.RemoteAddr())
	if err != nil {
		return nil, err
	}
	return c, nil
}

// takeDescriptor takes the socket away from a connection of the standard
// library, which is closed.
func takeDescriptor(conn net.Conn) (descriptor int, err error) {
	defer func() { _ = conn.Close() }() // what is taken is a duplicate
	system, ok := conn.(syscall.Conn)
	if !ok {
		return -1, errNoSocket
	}
	return duplicateOf(system)
}
