//go:build unix && !linux

package netloop

import (
	"errors"

	"golang.org/x/sys/unix"
)

// nothing tells whether nothing can be read now, not even the end.
func nothing(descriptor int) bool { return poll(descriptor, unix.POLLIN) == 0 }

// hungUp tells whether the peer has closed: completely, or, with half, at least
// its writing side. What it sent before and nobody has read hides that.
func hungUp(descriptor int, half bool) bool {
	var one [1]byte
	n, _, err := unix.Recvfrom(descriptor, one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), n > 0:
		return false
	case err != nil, half:
		return true
	}
	return poll(descriptor, 0)&(unix.POLLHUP|unix.POLLERR) != 0
}

// poll is poll(2) of one socket, without waiting.
func poll(descriptor int, events int16) (happened int16) {
	one := [1]unix.PollFd{{Fd: int32(descriptor), Events: events}}
	for {
		_, err := unix.Poll(one[:], 0)
		switch {
		case err == nil:
			return one[0].Revents
		case !errors.Is(err, unix.EINTR):
			return unix.POLLERR
		}
	}
}
