package transport

import (
	"golang.org/x/sys/unix"

	"sluice/internal/netloop"
)

// acknowledged is how many bytes of what was written on a connection the
// endpoint's system has acknowledged; false: it cannot tell (a Unix socket).
func acknowledged(conn netloop.Conn) (bytes int64, known bool) {
	err := conn.Control(func(descriptor uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(descriptor), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			bytes, known = int64(info.Bytes_acked)-1, true // the SYN counts as one
		}
	})
	return bytes, known && err == nil
}
