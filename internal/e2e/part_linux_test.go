package e2e

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// parted tells how an endpoint left a connection.
type parted struct {
	swallowed []byte // what the system had acknowledged and no answer came to
	received  uint64 // all bytes that the system had acknowledged, by TCP_INFO; the peer's FIN counts as one
}

// part closes a connection and tells exactly what had been acknowledged by
// then. There are two ways, as there are with services that mean no harm:
//
//   - orderly: the connection ends with FIN, whatever has come meanwhile. What
//     comes later is refused, not acknowledged.
//   - else it is a close as most programs have it: what had come unread breaks
//     the connection (RST), else it ends with FIN. Nothing comes between the look
//     and the close: a reset is for what was swallowed, and for nothing else.
func part(t *testing.T, conn *net.TCPConn, orderly bool) (p parted) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Error(err)
		return p
	}
	defer conn.Close()
	var fault error
	if err := raw.Control(func(handle uintptr) { p, fault = partSocket(int(handle), orderly) }); err != nil {
		t.Error(err)
	}
	if fault != nil {
		t.Errorf("while a connection was closed: %v", fault)
	}
	if !orderly && len(p.swallowed) > 0 {
		_ = conn.SetLinger(0) // it may be broken already
	}
	return p
}

// partSocket is part but for the close.
func partSocket(socket int, orderly bool) (p parted, err error) {
	if orderly {
		if err := shutdown(socket); err != nil {
			return p, err
		}
	} else if err := deafen(socket); err != nil {
		return p, err
	}
	for buffer := make([]byte, 64<<10); ; {
		n, _, err := unix.Recvfrom(socket, buffer, unix.MSG_DONTWAIT)
		if n <= 0 || err != nil {
			break // all is read
		}
		p.swallowed = append(p.swallowed, buffer[:n]...)
	}
	info, err := unix.GetsockoptTCPInfo(socket, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return p, err
	}
	p.received = info.Bytes_received
	if orderly || len(p.swallowed) > 0 {
		return p, nil
	}
	if err := shutdown(socket); err != nil {
		return p, err
	}
	return p, unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
}

// shutdown ends both directions: from here on the system answers data with a
// reset.
func shutdown(socket int) error {
	if err := unix.Shutdown(socket, unix.SHUT_RDWR); !errors.Is(err, unix.ENOTCONN) {
		return err
	}
	return nil // the peer has broken it
}

// deafen lets the system drop what comes for a socket, unacknowledged.
func deafen(socket int) error {
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	return unix.SetsockoptSockFprog(socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing})
}
