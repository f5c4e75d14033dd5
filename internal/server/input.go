package server

import (
	"time"

	"sluice/internal/netloop"
)

// input is what was read from a client and not used yet. It is lent for as long
// as the connection is not at rest. Its buffer is, too, while anything is in it
// or about to come; it grows for a head that does not fit.
type input struct {
	conn     netloop.Conn
	heads    *buffers[headBuffer]
	lent     *headBuffer // nil: given back
	data     []byte
	from, to int       // what is not used
	since    time.Time // when what is not used began to come; zero: now
}

// begin makes it the input of a connection.
func (in *input) begin(conn netloop.Conn, heads *buffers[headBuffer]) {
	in.conn, in.heads = conn, heads
}

// end lets go of the connection, and of what is not used.
func (in *input) end() {
	in.from, in.to, in.since = 0, 0, time.Time{}
	in.spare()
	in.conn = nil
}

// spare gives the buffer back if nothing is in it: the next request that is
// read, on any connection, then finds it where the processor still has it.
func (in *input) spare() {
	if in.buffered() > 0 {
		return
	}
	if in.lent != nil {
		in.heads.put(in.lent)
	}
	in.lent, in.data = nil, nil
}

// ready sees to it that there is a buffer.
func (in *input) ready() {
	if in.data == nil {
		in.lent = in.heads.get()
		in.data = in.lent[:]
	}
}

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
func (in *input) put(text string) {
	in.ready()
	in.to = copy(in.data, text)
}

// fill reads more, behind what is there.
func (in *input) fill() error {
	in.ready()
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
