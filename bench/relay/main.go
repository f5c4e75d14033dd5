//go:build linux

// Command relay carries TCP connections to an endpoint and back without looking
// at a byte: an epoll loop per core, one buffer per loop, and splice for what
// fills that buffer. Its cost is the floor under every proxy that reads and
// writes through the kernel's sockets. It is no proxy to use: it has no
// time-outs and no limits.
package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	edgeTriggered = 1 << 31 // syscall.EPOLLET has the wrong sign
	interest      = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | edgeTriggered
	reusePort     = 15
	bufferSize    = 64 << 10
	pipeSize      = 1 << 20
	descriptors   = 1 << 16
)

// side is one socket of a pair.
type side struct {
	fd       int
	other    *side
	readable bool
	writable bool
	ended    bool   // nothing more will come
	memory   []byte // holds pending, while there is any
	pending  []byte // what could not be written to this side yet
	pipe     *pipe  // the same, of what was spliced
}

// pipe is a pipe of the kernel's with so many bytes in it.
type pipe struct {
	ends [2]int
	held int
}

type loop struct {
	epoll    int
	listener int
	endpoint syscall.SockaddrInet4
	sides    []*side // by descriptor
	buffer   []byte
	spare    [][]byte // for pending
	pipes    []*pipe  // empty ones
	events   []syscall.EpollEvent
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 2 {
		return errors.New("usage: relay LISTEN ENDPOINT")
	}
	var addresses [2]syscall.SockaddrInet4
	for i, text := range arguments {
		address, err := netip.ParseAddrPort(text)
		if err != nil {
			return err
		}
		addresses[i] = syscall.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}
	}
	failed := make(chan error)
	for range runtime.GOMAXPROCS(0) {
		l, err := newLoop(addresses[0], addresses[1])
		if err != nil {
			return err
		}
		go func() { failed <- l.run() }()
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	select {
	case <-stop:
		return nil
	case err := <-failed:
		return err
	}
}

func newLoop(listen, endpoint syscall.SockaddrInet4) (*loop, error) {
	l := &loop{
		endpoint: endpoint,
		sides:    make([]*side, descriptors),
		buffer:   make([]byte, bufferSize),
		events:   make([]syscall.EpollEvent, 256),
	}
	var err error
	if l.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if l.listener, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	for _, option := range []int{syscall.SO_REUSEADDR, reusePort} {
		if err := syscall.SetsockoptInt(l.listener, syscall.SOL_SOCKET, option, 1); err != nil {
			return nil, err
		}
	}
	if err := syscall.Bind(l.listener, &listen); err != nil {
		return nil, err
	}
	if err := syscall.Listen(l.listener, 4096); err != nil {
		return nil, err
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(l.listener)}
	return l, syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, l.listener, &event)
}

func (l *loop) run() error {
	for {
		n := l.poll()
		for _, event := range l.events[:n] {
			if int(event.Fd) == l.listener {
				l.accept()
				continue
			}
			s := l.sides[event.Fd]
			if s == nil {
				continue
			}
			const broken = syscall.EPOLLHUP | syscall.EPOLLERR
			if event.Events&(syscall.EPOLLIN|syscall.EPOLLRDHUP|broken) != 0 {
				s.readable = true
			}
			if event.Events&syscall.EPOLLRDHUP != 0 {
				s.ended = true // read on until it says so itself
			}
			if event.Events&(syscall.EPOLLOUT|broken) != 0 {
				s.writable = true
			}
			if !l.carry(s, s.other) || !l.carry(s.other, s) {
				l.drop(s)
			}
		}
	}
}

// poll asks once without blocking, by a call that the runtime does not see: it
// gives the processor away only when nothing is to do.
func (l *loop) poll() int {
	n, _, failure := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)), 0, 0, 0)
	if failure == 0 && n > 0 {
		return int(n)
	}
	waited, err := syscall.EpollWait(l.epoll, l.events, -1)
	if err != nil {
		return 0
	}
	return waited
}

func (l *loop) accept() {
	for {
		client, _, err := syscall.Accept4(l.listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		endpoint, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			_ = syscall.Close(client)
			continue
		}
		a, b := &side{fd: client}, &side{fd: endpoint}
		a.other, b.other = b, a
		for _, s := range []*side{a, b} {
			_ = syscall.SetsockoptInt(s.fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
			l.sides[s.fd] = s
		}
		err = syscall.Connect(endpoint, &l.endpoint)
		if err != nil && !errors.Is(err, syscall.EINPROGRESS) {
			l.drop(a)
			continue
		}
		for _, s := range []*side{a, b} {
			event := syscall.EpollEvent{Events: interest & (1<<32 - 1), Fd: int32(s.fd)}
			if err := syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, s.fd, &event); err != nil {
				l.drop(a)
				break
			}
		}
	}
}

func (l *loop) drop(s *side) {
	for _, s := range []*side{s, s.other} {
		l.sides[s.fd] = nil
		_ = syscall.Close(s.fd)
		l.keep(s)
		l.keepPipe(s)
	}
}

// carry moves what can be moved from one side to the other; false when the
// pair is over.
func (l *loop) carry(from, to *side) bool {
	for {
		if len(to.pending) > 0 {
			if !to.writable {
				return true
			}
			n, ok := l.write(to, to.pending)
			if !ok {
				return false
			}
			if n < len(to.pending) {
				to.pending = to.pending[n:]
				return true
			}
			l.keep(to)
		}
		if to.pipe != nil {
			more, ok := l.splice(from, to)
			if !ok {
				return false
			}
			if !more {
				return true
			}
		}
		if !from.readable || !to.writable {
			return true
		}
		n, _, failure := syscall.RawSyscall(syscall.SYS_READ, uintptr(from.fd), uintptr(unsafe.Pointer(&l.buffer[0])), bufferSize)
		switch {
		case failure == syscall.EAGAIN:
			from.readable = false
			return true
		case failure != 0 || n == 0:
			return false
		}
		if int(n) < bufferSize && !from.ended {
			from.readable = false
		}
		written, ok := l.write(to, l.buffer[:n])
		if !ok {
			return false
		}
		if written < int(n) {
			to.memory = append(l.take(), l.buffer[written:n]...)
			to.pending = to.memory
		}
		if int(n) == bufferSize {
			to.pipe = l.takePipe()
		}
	}
}

// splice moves bytes by the pipe until one side waits; more says that the
// source was drained and that the pipe, empty, was put back.
func (l *loop) splice(from, to *side) (more, ok bool) {
	const flags = 1 | 2 // SPLICE_F_MOVE, SPLICE_F_NONBLOCK
	for {
		for to.pipe.held > 0 {
			if !to.writable {
				return false, true
			}
			n, _, failure := syscall.RawSyscall6(syscall.SYS_SPLICE, uintptr(to.pipe.ends[0]), 0, uintptr(to.fd), 0, uintptr(to.pipe.held), flags)
			if failure == syscall.EAGAIN {
				to.writable = false
				return false, true
			}
			if failure != 0 {
				return false, false
			}
			to.pipe.held -= int(n)
		}
		if !from.readable {
			l.keepPipe(to)
			return true, true
		}
		n, _, failure := syscall.RawSyscall6(syscall.SYS_SPLICE, uintptr(from.fd), 0, uintptr(to.pipe.ends[1]), 0, pipeSize, flags)
		if failure == syscall.EAGAIN { // the pipe is empty: it is the source
			from.readable = false
			continue
		}
		if failure != 0 || n == 0 {
			return false, false
		}
		to.pipe.held = int(n)
	}
}

func (l *loop) takePipe() *pipe {
	if n := len(l.pipes); n > 0 {
		p := l.pipes[n-1]
		l.pipes = l.pipes[:n-1]
		return p
	}
	p := &pipe{}
	if err := syscall.Pipe2(p.ends[:], syscall.O_NONBLOCK|syscall.O_CLOEXEC); err != nil {
		return nil // then bytes go on being copied
	}
	const setPipeSize = 1031
	_, _, _ = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(p.ends[0]), setPipeSize, pipeSize)
	return p
}

// keepPipe takes a side's pipe back; one with something in it is of no use.
func (l *loop) keepPipe(s *side) {
	switch {
	case s.pipe == nil:
	case s.pipe.held == 0:
		l.pipes = append(l.pipes, s.pipe)
	default:
		_ = syscall.Close(s.pipe.ends[0])
		_ = syscall.Close(s.pipe.ends[1])
	}
	s.pipe = nil
}

func (l *loop) write(to *side, b []byte) (written int, ok bool) {
	for written < len(b) {
		n, _, failure := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(to.fd), uintptr(unsafe.Pointer(&b[written])), uintptr(len(b)-written))
		if failure == syscall.EAGAIN {
			to.writable = false
			return written, true
		}
		if failure != 0 {
			return written, false
		}
		written += int(n)
	}
	return written, true
}

func (l *loop) take() []byte {
	if n := len(l.spare); n > 0 {
		b := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return b
	}
	return make([]byte, 0, bufferSize)
}

// keep takes back the memory of what was pending.
func (l *loop) keep(s *side) {
	if s.memory != nil {
		l.spare = append(l.spare, s.memory[:0])
	}
	s.memory, s.pending = nil, nil
}
