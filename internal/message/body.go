package message

import "io"

// Ready is what a body implements that knows how much of it is there: an engine
// then sends it along with the head, and holds nothing back that is not there.
type Ready interface {
	// Buffered is how many bytes Read would return without waiting.
	Buffered() int
}

// Buffered is how many bytes of a body can be read without waiting, 0 where it
// does not say.
func Buffered(body io.Reader) int {
	if ready, ok := body.(Ready); ok {
		return ready.Buffered()
	}
	return 0
}

// Text returns a body that is there already.
func Text(text string) io.ReadCloser { return &ready{text} }

type ready struct{ left string }

// Read reads what is left.
func (b *ready) Read(p []byte) (int, error) {
	if b.left == "" {
		return 0, io.EOF
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

// Buffered is all of it.
func (b *ready) Buffered() int { return len(b.left) }

// Close drops the rest.
func (b *ready) Close() error {
	b.left = ""
	return nil
}
