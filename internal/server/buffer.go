package server

import "sync"

// The buffers that are lent. Nothing of an exchange keeps one.
type (
	// headBuffer is for what is read of a request at first, and for a head that
	// is written, with what is there of the body: all of what a connection to an
	// endpoint has read with its head (16 KiB), though the head has grown here. A
	// rest would be written by itself, and keep what follows from going by a pipe.
	headBuffer [20 << 10]byte
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
