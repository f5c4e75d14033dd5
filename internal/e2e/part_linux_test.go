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
//     the connection (RST), else it ends with FIN.
//
// read is what the service has read so far.
func part(t *testing.T, conn *net.TCPConn, orderly bool) (p parted) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Error(err)
		return p
	}
	defer conn.Close()
	var reset bool
	var fault error
	if err := raw.Control(func(handle uintptr) {
		socket := int(handle)
		if orderly {
			// From here on the system answers data with a reset.
			if err := unix.Shutdown(socket, unix.SHUT_RDWR); errors.Is(err, unix.ENOTCONN) {
				return // the peer has broken it
			} else if err != nil {
				fault = err
				return
			}
		} else if fault = deafen(socket); fault != nil {
			return
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
			fault = err
			return
		}
		p.received = info.Bytes_received
		if !orderly && len(p.swallowed) > 0 {
			reset = true
		} else if !orderly {
			fault = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		}
	}); err != nil {
		t.Error(err)
	}
	if fault != nil {
		t.Errorf("while a connection was closed: %v", fault)
	}
	if reset {
		_ = conn.SetLinger(0) // it may be broken already
	}
	return p
}

// deafen lets the system drop what comes for a socket, unacknowledged.
func deafen(socket int) error {
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	return unix.SetsockoptSockFprog(socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing})
}
