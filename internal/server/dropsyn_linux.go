package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropSYN lets a listening socket drop what would begin a connection (RFC 9293
// 3.5: SYN without ACK); what has begun goes on. The client tries again after a
// second, and finds whoever listens then.
func dropSYN(raw syscall.RawConn) error {
	const flags, begins = 13, 0x02 // of a TCP header: the byte, and SYN without ACK in it
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: begins},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
	return errors.Join(err, failed)
}
