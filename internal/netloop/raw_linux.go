package netloop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// These calls never block. They are made without telling the runtime, which
// would else make ready to give the processor away, at a cost that is a good
// part of what the loops save. It takes addresses of buffers, as those calls of
// the standard library do that tell the runtime.

// read is read(2).
func read(descriptor int, p []byte) (int, unix.Errno) {
	start := unsafe.Pointer(unsafe.SliceData(p)) //nolint:gosec // G103: the address for the kernel, alive until the call returns
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(descriptor), uintptr(start), uintptr(len(p)))
	return int(n), errno
}

// write is sendto(2) with MSG_NOSIGNAL: a peer that has gone is an error and no
// signal.
func write(descriptor int, p []byte) (int, unix.Errno) {
	start := unsafe.Pointer(unsafe.SliceData(p)) //nolint:gosec // G103: as in read
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(descriptor), uintptr(start), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// splice is splice(2), which moves up to n bytes to or from a pipe. It tells
// nothing of an interruption by a signal.
func splice(from, to, n int) (int, unix.Errno) {
	for {
		moved, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if errno != unix.EINTR {
			return int(moved), errno
		}
	}
}

// nothing tells whether nothing can be read now, not even the end.
func nothing(descriptor int) bool {
	_, errno := peek(descriptor)
	return errno == unix.EAGAIN
}

// peek looks for a byte to read, and takes nothing away.
func peek(descriptor int) (int, unix.Errno) {
	var one [1]byte
	start := unsafe.Pointer(&one) //nolint:gosec // G103: as in read
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(descriptor), uintptr(start), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// pollFd is the kernel's struct pollfd.
type pollFd struct {
	descriptor       int32
	events, happened int16
}

// hungUp tells whether the peer has closed: completely, or, with half, at least
// its writing side. It sees that past what nobody has read.
func hungUp(descriptor int, half bool) bool {
	one := pollFd{descriptor: int32(descriptor), events: unix.POLLRDHUP}
	var never unix.Timespec           // ppoll(2), without waiting
	start := unsafe.Pointer(&one)     //nolint:gosec // G103: as in read
	timeout := unsafe.Pointer(&never) //nolint:gosec // G103: as in read
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(start), 1, uintptr(timeout), 0, 0, 0)
	gone := int16(unix.POLLHUP | unix.POLLERR)
	if half {
		gone |= unix.POLLRDHUP
	}
	return errno == 0 && one.happened&gone != 0
}

// look is epoll_pwait(2) without waiting.
func look(epoll int, events []unix.EpollEvent) (int, unix.Errno) {
	start := unsafe.Pointer(unsafe.SliceData(events)) //nolint:gosec // G103: as in read
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(start), uintptr(len(events)), 0, 0, 0)
	return int(n), errno
}
