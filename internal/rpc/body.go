package rpc

import (
	"encoding/binary"
	"strings"
)

// prefix is how many bytes stand before a message: flags, and its length.
const prefix = 5

// Position follows a body as it passes: where one message ends and the next
// begins. The zero value is the beginning.
type Position struct {
	head [prefix]byte
	have int    // bytes of head
	left uint32 // bytes of the message to come
}

// Pass notes bytes of the body.
func (p *Position) Pass(data []byte) {
	for len(data) > 0 {
		if p.left > 0 {
			n := min(uint64(p.left), uint64(len(data)))
			p.left -= uint32(n)
			data = data[n:]
			continue
		}
		n := copy(p.head[p.have:], data)
		data = data[n:]
		if p.have += n; p.have == prefix {
			p.have, p.left = 0, binary.BigEndian.Uint32(p.head[1:])
		}
	}
}

// Between tells whether no message is under way.
func (p *Position) Between() bool { return p.have == 0 && p.left == 0 }

// trailerFlag marks the last frame of a body of the web forms.
const trailerFlag = 0x80

// TrailerFrame is the last frame of a body of the web forms, which has the
// trailer fields in it. It is filled by Add and taken by Bytes.
type TrailerFrame struct{ data []byte }

// Add adds a field. Its value has no line ends.
func (f *TrailerFrame) Add(name, value string) {
	if f.data == nil {
		f.data = make([]byte, prefix, 64)
	}
	f.data = append(f.data, strings.ToLower(name)...)
	f.data = append(f.data, ':')
	f.data = append(f.data, value...)
	f.data = append(f.data, "\r\n"...)
}

// Bytes is the frame.
func (f *TrailerFrame) Bytes() []byte {
	if f.data == nil {
		f.data = make([]byte, prefix)
	}
	f.data[0] = trailerFlag
	binary.BigEndian.PutUint32(f.data[1:], uint32(len(f.data)-prefix))
	return f.data
}
