//go:build unix

package netloop

import "golang.org/x/sys/unix"

// Unsent is how many bytes wait in the system's queue to be taken by the peer of
// a socket: those that its system has not acknowledged, or on a Unix socket those
// that it has not read. -1: the system cannot tell. control is the Control of a
// Conn, or of a syscall.RawConn.
func Unsent(control func(f func(descriptor uintptr)) error) (n int) {
	n = -1
	_ = control(func(descriptor uintptr) { // fails on a closed connection only
		if queued, err := unix.IoctlGetInt(int(descriptor), unix.TIOCOUTQ); err == nil {
			n = queued
		}
	})
	return n
}
