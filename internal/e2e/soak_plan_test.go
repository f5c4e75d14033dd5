package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
)

// place is where one side leaves an exchange.
type place string

// The places of soakPlan. A client leaves in a head, in a body, when it has
// asked, or in the answer; an endpoint when it has the head, in the body, when it
// has all, in the head or the body of its answer, or after it. An early answer
// comes before the body is read, and the endpoint leaves after it.
const (
	stay     place = "stay"
	inHead   place = "head"
	inBody   place = "body"
	asked    place = "asked"
	inAnswer place = "answer"
	inReply  place = "reply"
	after    place = "after"
	early    place = "early"
)

// framing is how the end of an answer's body is told.
type framing string

const (
	sized   framing = "sized"
	chunked framing = "chunked"
	closing framing = "close"
)

// leaving is where one side breaks an exchange off, and whether by a reset.
type leaving struct {
	where place
	reset bool
}

// soakPlan is what is to happen in one exchange.
type soakPlan struct {
	id       uint64
	method   string
	old      bool // HTTP/1.0
	last     bool // the client asks for the end of the connection
	expect   bool // the client waits for 100
	chunked  bool // the request's body
	request  int  // bytes of its body
	answer   int  // bytes of the answer's body
	framing  framing
	hints    bool // 103 comes before the answer
	few      bool // there are few connections to the endpoint, for which requests wait
	client   leaving
	endpoint leaving
}

// size is mostly small, at times up to most.
func size(rng *rand.Rand, most int) int {
	bound := most
	switch n := rng.IntN(100); {
	case n < 50:
		bound = 64
	case n < 85:
		bound = 4 << 10
	case n < 98:
		bound = 32 << 10
	}
	return rng.IntN(min(bound, most) + 1)
}

// oneOf draws from a list.
func oneOf[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

const largest = 1 << 20

// draw plans an exchange. In a pipeline it is small, and the client stays.
func draw(rng *rand.Rand, id uint64, pipelined bool) soakPlan {
	percent := func(n int) bool { return rng.IntN(100) < n }
	most := largest
	if pipelined {
		most = 1 << 10
	}
	p := soakPlan{
		id: id, method: oneOf(rng, "GET", "GET", "GET", "GET", "POST", "POST", "POST", "PUT", "HEAD"),
		answer: size(rng, most), framing: oneOf(rng, sized, sized, sized, chunked, chunked, closing),
		client: leaving{where: stay}, endpoint: leaving{where: stay},
		few: percent(20), hints: percent(3), last: !pipelined && percent(3),
	}
	if p.method == "POST" || p.method == "PUT" {
		p.request, p.chunked = size(rng, most), percent(40)
	}
	if p.framing == closing && percent(80) {
		p.framing = sized // a connection for each answer is dear
	}
	if !pipelined && percent(5) {
		p.old, p.chunked, p.hints = true, false, false
	}
	if percent(6) {
		p.endpoint = leaving{oneOf(rng, inHead, inBody, asked, inAnswer, inReply, after, after, early), percent(50)}
	}
	if !pipelined && percent(6) {
		p.client = leaving{oneOf(rng, inHead, inBody, asked, inReply), percent(50)}
	}
	p.expect = !pipelined && !p.old && p.request > 0 && p.client.where == stay && percent(5)
	if p.endpoint.where == after && (p.framing == closing || p.answer > 4<<10) {
		p.endpoint.reset = false // a reset would drop what is not sent yet
	}
	return p
}

// String goes to the endpoint, which must know what it is to do.
func (p *soakPlan) String() string {
	return fmt.Sprintf("%d %d %d %s %s %t %t", p.id, p.request, p.answer, p.framing, p.endpoint.where, p.endpoint.reset, p.hints)
}

// parsePlan is the endpoint's part of a plan, from its text.
func parsePlan(text string) (p soakPlan, err error) {
	words := strings.Fields(text)
	if len(words) != 7 {
		return p, fmt.Errorf("no plan: %q", text)
	}
	var errs [3]error
	p.id, errs[0] = strconv.ParseUint(words[0], 10, 64)
	p.request, errs[1] = strconv.Atoi(words[1])
	p.answer, errs[2] = strconv.Atoi(words[2])
	p.framing, p.endpoint = framing(words[3]), leaving{place(words[4]), words[5] == "true"}
	p.hints = words[6] == "true"
	return p, errors.Join(errs[:]...)
}

// A body is blocks of sixteen bytes, each of which tells whose it is: the
// exchange, the direction, the block's number, and a checksum of these.
const (
	blockBytes   = 16
	answerStream = 1 << 63 // set in the id of an answer's blocks
)

func block(id uint64, number int64) (b [blockBytes]byte) {
	binary.BigEndian.PutUint64(b[:8], id)
	mix := (id ^ uint64(number)*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	binary.BigEndian.PutUint64(b[8:], uint64(number)<<32|mix>>32)
	return b
}

// stamp writes the bytes of a body from an offset on.
func stamp(p []byte, id uint64, offset int64) {
	for len(p) > 0 {
		b := block(id, offset/blockBytes)
		n := copy(p, b[offset%blockBytes:])
		p, offset = p[n:], offset+int64(n)
	}
}

var errForeign = errors.New("bytes of something else")

// verified reads a body to its end and returns its length. Bytes that are not
// this body's are errForeign.
func verified(body io.Reader, id uint64, most int64) (length int64, err error) {
	var buffer [4 << 10]byte
	for length < most {
		n, err := body.Read(buffer[:min(int64(len(buffer)), most-length)])
		for p := buffer[:n]; len(p) > 0; {
			want := block(id, length/blockBytes)
			rest := want[length%blockBytes:]
			rest = rest[:min(len(rest), len(p))]
			if !bytes.Equal(p[:len(rest)], rest) {
				return length, fmt.Errorf("%w at byte %d: %x, not %x", errForeign, length, p[:len(rest)], rest)
			}
			p, length = p[len(rest):], length+int64(len(rest))
		}
		if errors.Is(err, io.EOF) {
			return length, nil
		}
		if err != nil {
			return length, err
		}
	}
	return length, nil
}

// writeStamped writes so many bytes of a body, in chunks of random sizes if
// that is asked for; whole adds the last chunk.
func writeStamped(out io.Writer, rng *rand.Rand, id uint64, length int, inChunks, whole bool) error {
	buffer := make([]byte, 0, min(length, 64<<10)+20)
	for offset := 0; offset < length; {
		n := min(length-offset, 64<<10)
		buffer = buffer[:0]
		if inChunks {
			n = 1 + rng.IntN(n)
			buffer = fmt.Appendf(buffer, "%x\r\n", n)
		}
		begin := len(buffer)
		buffer = append(buffer, make([]byte, n)...)
		stamp(buffer[begin:], id, int64(offset))
		if inChunks {
			buffer = append(buffer, "\r\n"...)
		}
		if _, err := out.Write(buffer); err != nil {
			return err
		}
		offset += n
	}
	if inChunks && whole {
		_, err := io.WriteString(out, "0\r\n\r\n")
		return err
	}
	return nil
}
