//go:build unix

package netloop

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var errNoSocket = errors.New("it has no descriptor")

// duplicate returns a descriptor of its own for the socket of a listener: the
// caller of Listen may close its listener whenever it likes.
func duplicate(socket net.Listener) (descriptor int, err error) {
	system, ok := socket.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("listen on %s: %w", socket.Addr(), errNoSocket)
	}
	if descriptor, err = duplicateOf(system); err != nil {
		return -1, fmt.Errorf("listen on %s: %w", socket.Addr(), err)
	}
	return descriptor, nil
}

func duplicateOf(system syscall.Conn) (descriptor int, err error) {
	raw, err := system.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failure error
	err = raw.Control(func(original uintptr) {
		descriptor, failure = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	})
	return descriptor, errors.Join(err, os.NewSyscallError("fcntl", failure))
}

// reserve is a descriptor that is given up when there is no other, so that a
// client can be told instead of waiting.
type reserve struct {
	mu   sync.Mutex
	file *os.File
	told time.Time // when somebody was told last
	more int       // failures since then
	most int       // connections have no descriptor from here on; 0: any. It is not changed once there are any.
}

// Of the descriptors that the process may have, connections leave one in
// spareShare, and at most maxSpare, to all else: so that who runs the gateway can
// still ask what is going on, and files can be read and written.
const (
	spareShare = 16
	maxSpare   = 64
)

// spare is what beyond answers with from now on.
func (r *reserve) spare() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		if all := int(min(limit.Cur, math.MaxInt32)); all > 0 {
			r.most = all - min(all/spareShare, maxSpare)
		}
	}
}

// beyond tells whether a descriptor is one that connections leave. The system
// gives the lowest one that is free.
func (r *reserve) beyond(descriptor int) bool { return r.most > 0 && descriptor >= r.most }

// check fails with errSpare where that is so of a connection.
func (r *reserve) check(raw syscall.RawConn) error {
	beyond := false
	if err := raw.Control(func(descriptor uintptr) { beyond = r.beyond(int(descriptor)) }); err != nil {
		return err
	}
	if beyond {
		return errSpare
	}
	return nil
}

func (r *reserve) fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file, _ = os.Open(os.DevNull) // without it clients wait
}

func (r *reserve) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// refuse takes one connection of a listening socket, which does not block,
// tells it what there is to tell, and closes it.
func (r *reserve) refuse(listening int, answer []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil { // somebody else took it the last time; without it clients wait
		r.file, _ = os.Open(os.DevNull)
	}
	if r.file == nil {
		return
	}
	_ = r.file.Close()
	if descriptor, _, err := unix.Accept(listening); err == nil {
		if unix.SetNonblock(descriptor, true) == nil {
			Dismiss(descriptor, answer)
		}
		_ = unix.Close(descriptor)
	}
	r.file, _ = os.Open(os.DevNull)
}

// Dismiss tells a client what there is to tell, without waiting, before its
// connection, whose descriptor does not block, is closed. It returns how much it
// could write: all of what is not long, since the queue of a new one is empty.
func Dismiss(descriptor int, answer []byte) (written int) {
	written, _ = unix.Write(descriptor, answer)
	_ = unix.Shutdown(descriptor, unix.SHUT_WR)
	// Closing with bytes unread would break the connection, and the client might
	// never see the answer.
	var unread [4096]byte
	_, _ = unix.Read(descriptor, unread[:])
	return max(written, 0)
}

// errSpare is why a connection gets no descriptor that is left to others.
var errSpare = os.NewSyscallError("reserve", unix.EMFILE)

// tellAgain is how often it is told that connections cannot be taken.
const tellAgain = 10 * time.Second

// tell counts a failure, and returns how many are to be told of now.
func (r *reserve) tell(now time.Time) (failures int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.more++
	if now.Sub(r.told) < tellAgain {
		return 0
	}
	failures, r.more, r.told = r.more, 0, now
	return failures
}

// exhausted tells whether accepting failed for want of descriptors, and refuses
// a connection then.
func (r *reserve) exhausted(err error, listening int, options *ListenOptions, log *slog.Logger) {
	r.warn(err, log)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		r.refuse(listening, options.exhausted())
	}
}

func (r *reserve) warn(err error, log *slog.Logger) {
	if failures := r.tell(time.Now()); failures > 0 {
		log.Warn("connections cannot be taken", "error", err, "times", failures)
	}
}
