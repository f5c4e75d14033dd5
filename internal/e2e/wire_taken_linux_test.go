package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/gatewaytest"
)

// wireTaken waits until the other end of a connection, which is on this
// machine, has read all that was written, so that what is written next comes
// apart from it. It gives up where the other end is closed.
func wireTaken(conn net.Conn) error {
	deadline := time.Now().Add(gatewaytest.Patience)
	for time.Now().Before(deadline) {
		if queued, err := wireQueued(conn); err != nil || queued == 0 {
			return err
		}
		<-time.After(50 * time.Microsecond)
	}
	return errors.New("the peer reads nothing")
}

// wireQueued asks the kernel how many bytes wait for the other end to read
// them (sock_diag(7)); none where that is no more.
func wireQueued(conn net.Conn) (uint32, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(socket) }() // nothing is lost with it
	if err := unix.Sendto(socket, wireDiagRequest(conn), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return 0, err
	}
	const (
		header = 16         // struct nlmsghdr
		queue  = 4 + 48 + 4 // idiag_rqueue in struct inet_diag_msg
	)
	switch kind := binary.NativeEndian.Uint16(answer[4:]); {
	case n >= header+queue+4 && kind == unix.SOCK_DIAG_BY_FAMILY:
		return binary.NativeEndian.Uint32(answer[header+queue:]), nil
	case n >= header+4 && kind == unix.NLMSG_ERROR && -int32(binary.NativeEndian.Uint32(answer[header:])) == int32(unix.ENOENT):
		return 0, nil
	default:
		return 0, fmt.Errorf("sock_diag answers with a message of type %d", kind)
	}
}

// wireDiagRequest asks about the socket at the other end of a connection: a
// struct nlmsghdr, then a struct inet_diag_req_v2.
func wireDiagRequest(conn net.Conn) []byte {
	here, there := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
	var b []byte
	b = binary.NativeEndian.AppendUint32(b, 72) // of the whole
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence, port
	b = append(b, unix.AF_INET, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, 1<<32-1) // in any state
	b = binary.BigEndian.AppendUint16(b, uint16(there.Port))
	b = binary.BigEndian.AppendUint16(b, uint16(here.Port))
	b = append(append(b, there.IP.To4()...), make([]byte, 12)...)
	b = append(append(b, here.IP.To4()...), make([]byte, 12)...)
	b = append(b, 0, 0, 0, 0)                                // any interface
	return append(b, 255, 255, 255, 255, 255, 255, 255, 255) // no cookie
}

func TestWireTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	say(t, conn, "hello")
	for _, step := range []struct {
		waiting uint32
		read    string
	}{{5, "hel"}, {2, "lo"}, {0, ""}} {
		if queued, err := wireQueued(conn); err != nil || queued != step.waiting {
			t.Errorf("%d bytes wait, %v; want %d", queued, err, step.waiting)
		}
		hear(t, peer, step.read)
	}
	peer.Close()
	if err := wireTaken(conn); err != nil {
		t.Error(err)
	}
}
