//go:build unix

package netloop

import (
	"errors"
	"io"
)

var errAnswers = errors.New("the peer asks for new keys without end, and takes no answer")

// Read reads what is there, of as many records as were read from the socket.
func (t *TLS) Read(p []byte) (n int, err error) {
	if err := t.cannotRead(); err != nil || len(p) == 0 {
		return 0, err
	}
	n = t.unstash(p)
	how := await
	for n < len(p) {
		if n > 0 {
			if how = never; !t.full && len(t.records.data) == 0 {
				break
			}
		}
		more, err := t.decipher(how, p[n:])
		n += more
		switch {
		case err == nil:
		case n > 0: // an error stays, but that of what would wait
			return n, nil
		default:
			return 0, err
		}
	}
	return n, nil
}

func (t *TLS) cannotRead() error {
	if err := t.records.cannotRead(t.stashed || t.full || len(t.records.data) > 0); err != nil {
		return err
	}
	if !t.ready() {
		return errNoHandshake
	}
	return nil
}

// unstash takes what was read to learn whether anything is there.
func (t *TLS) unstash(p []byte) (n int) {
	if t.stashed {
		t.stashed = false
		n = copy(p, t.stash[:])
	}
	return n
}

// decipher reads by crypto/tls, and sees to it that what that has to answer is
// sent. An error stays, but that of what would wait.
func (t *TLS) decipher(how waiting, p []byte) (n int, err error) {
	if t.readErr != nil {
		return 0, t.readErr
	}
	t.records.begin(how)
	n, err = t.conn.Read(p)
	t.full = n == len(p)
	if t.records.answer() && err == nil {
		err = errAnswers
	}
	if err == nil {
		return n, nil
	}
	if t.records.failed != nil {
		err = t.records.failed
	}
	switch {
	case errors.Is(err, errDeadline):
		return n, errDeadline
	case errors.Is(err, errTruncated):
		err = io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		err = t.records.endOr()
	default:
		t.records.alert()
	}
	t.readErr = err
	return n, err
}

// probe reads a byte ahead, if it need not wait for that.
func (t *TLS) probe(how waiting) {
	if !t.stashed {
		n, _ := t.decipher(how, t.stash[:]) // it stays, or it would wait
		t.stashed = n > 0
	}
}

// Pending tells, without waiting and without a look at the socket, whether a
// Read would not wait: a byte is there, the end, or an error. Where it is false
// the connection may come to rest.
func (t *TLS) Pending() bool {
	if !t.ready() {
		return len(t.records.data) > 0
	}
	if t.full || len(t.records.data) > 0 {
		t.probe(never)
	}
	return t.stashed || t.readErr != nil
}

// Await waits until the system has told of something to read, or a Read would
// not wait.
func (t *TLS) Await() error {
	if err := t.cannotRead(); err != nil || t.Pending() {
		return err
	}
	return t.records.inner.Await()
}

// Readable waits until a Read would not wait.
func (t *TLS) Readable() error {
	if err := t.cannotRead(); err != nil {
		return err
	}
	for !t.Pending() {
		if err := t.records.inner.Readable(); err != nil {
			return err
		}
		t.probe(once)
	}
	return nil
}

// Stale tells whether the peer has closed or sent anything; tickets to resume
// the session by are kept and count as nothing, and so do new keys.
func (t *TLS) Stale() bool {
	if t.records.dead() || !t.ready() || t.Pending() {
		return true
	}
	if !t.records.inner.Stale() {
		return t.records.partial()
	}
	t.probe(once)
	return t.stashed || t.readErr != nil || t.records.partial()
}
