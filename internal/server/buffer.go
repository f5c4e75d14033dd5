package server

import "sync"

// The buffers that are lent. Nothing of an exchange keeps one.
type (
	// headBuffer is for what is read of a request at first, and for a head that
	// is written, with what is there of the body.
	headBuffer [16 << 10]byte
	// bodyBuffer is for bodies and tunnels to pass through.
	bodyBuffer [64 << 10]byte
)

// buffers lends buffers of one kind.
type buffers[B any] struct{ pool sync.Pool }

func (b *buffers[B]) get() *B {
	if buffer, ok := b.pool.Get().(*B); ok {
		return buffer
	}
	return new(B)
}

func (b *buffers[B]) put(buffer *B) { b.pool.Put(buffer) }
