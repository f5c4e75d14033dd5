package server

import (
	"sluice/internal/netloop"
)

// input is what was read from a client and not used yet. It is lent for as long
// as the connection is not at rest, with its buffer; that grows for a head that
// does not fit.
type input struct {
	conn     netloop.Conn
	data     []byte
	from, to int // what is not used
	first    headBuffer
}

// begin makes it the input of a connection.
func (in *input) begin(conn netloop.Conn) {
	in.conn, in.data, in.from, in.to = conn, in.first[:], 0, 0
}

// end lets go of the connection.
func (in *input) end() { in.conn, in.data = nil, nil }

// bytes are what is not used; they are valid until the next fill.
func (in *input) bytes() []byte { return in.data[in.from:in.to] }

func (in *input) buffered() int { return in.to - in.from }

// use takes n bytes away.
func (in *input) use(n int) {
	if in.from += n; in.from == in.to {
		in.from, in.to = 0, 0
	}
}

// take copies what is there to p, and takes it away.
func (in *input) take(p []byte) int {
	n := copy(p, in.bytes())
	in.use(n)
	return n
}

// put puts text back, where nothing is there.
func (in *input) put(text string) { in.to = copy(in.data, text) }

// fill reads more, behind what is there.
func (in *input) fill() error {
	if in.to == len(in.data) {
		in.room()
	}
	n, err := in.conn.Read(in.data[in.to:])
	in.to += n
	return err
}

// room makes some: what is there goes to the front, or, where it takes all, into
// a buffer of twice the size.
func (in *input) room() {
	data := in.data
	if in.from == 0 {
		data = make([]byte, 2*len(in.data))
	}
	in.to = copy(data, in.bytes())
	in.data, in.from = data, 0
}
