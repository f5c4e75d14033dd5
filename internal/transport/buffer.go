package transport

const (
	// bufferSize is what a connection that carries an attempt has in bytes: for
	// the head of the request with a small body, then for what comes. Package
	// server has room for as much behind a head.
	bufferSize = 16 << 10
	// pieceSize is how much of a request's body is read at once, in bytes.
	pieceSize = 32 << 10
	// frameRoom is for what stands before a chunk, frameEnd for what may stand
	// behind it but a trailer.
	frameRoom = len("ffffffff\r\n")
	frameEnd  = len("\r\n0\r\n\r\n")
)

// buffer and piece are what the engine's pools hold. Nothing outside this
// package sees one.
type (
	buffer [bufferSize]byte
	piece  [frameRoom + pieceSize + frameEnd]byte
)

func (e *Engine) takeBuffer() *buffer {
	if b, ok := e.buffers.Get().(*buffer); ok {
		return b
	}
	return new(buffer)
}

func (e *Engine) takePiece() *piece {
	if b, ok := e.pieces.Get().(*piece); ok {
		return b
	}
	return new(piece)
}
