package grpc

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"

	"sluice/internal/pipeline"
	"sluice/internal/rpc"
)

// The sizes of base64: so many letters stand for so many bytes.
const (
	group  = 4
	triple = 3
)

// textRoom is how many letters are coded at once.
const textRoom = 4 << 10

// textReader decodes a request's body of base64. It may come in pieces that are
// padded each; what is cut in the middle of a group goes on in the next read.
type textReader struct {
	io.ReadCloser
	letters [textRoom]byte
	have    int // letters of a group that has not come whole
	rest    [group - 1]byte
	plain   [textRoom / group * triple]byte
	ready   []byte // of plain
	err     error  // behind it
}

// Read reads what is decoded.
func (t *textReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(t.ready) == 0 {
		if t.err != nil {
			return 0, t.err
		}
		n := copy(t.letters[:], t.rest[:t.have])
		came, err := t.ReadCloser.Read(t.letters[n:])
		n += came
		whole := n - n%group
		t.have = copy(t.rest[:], t.letters[whole:n])
		n, t.err = decodeText(t.plain[:], t.letters[:whole])
		if t.ready = t.plain[:n]; t.err == nil && err != nil {
			t.err = err
			if err == io.EOF && t.have > 0 {
				t.err = badText(io.ErrUnexpectedEOF)
			}
		}
		if came == 0 && t.err == nil {
			return 0, nil
		}
	}
	n := copy(p, t.ready)
	t.ready = t.ready[n:]
	return n, nil
}

// decodeText decodes whole groups, and tells how many bytes they are. Padding ends
// a piece, and the next begins behind it.
func decodeText(plain, letters []byte) (n int, err error) {
	for len(letters) > 0 {
		piece := letters
		if padding := bytes.IndexByte(letters, '='); padding >= 0 {
			piece = letters[:padding-padding%group+group]
		}
		decoded, err := base64.StdEncoding.Decode(plain[n:], piece)
		n += decoded
		if err != nil {
			return n, badText(err)
		}
		letters = letters[len(piece):]
	}
	return n, nil
}

func badText(cause error) error {
	return pipeline.NewError(pipeline.BadRequest, fmt.Errorf("the body is not base64: %w", cause))
}

// textWriter is a webBody in base64. Each message is padded, so that it can be
// decoded when it has come.
type textWriter struct {
	*webBody
	position rpc.Position
	plain    [textRoom / group * triple]byte
	have     int // bytes of it that wait for more
	letters  [textRoom]byte
	ready    []byte // of letters
	err      error  // behind it
}

// Read reads what is encoded.
func (t *textWriter) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(t.ready) == 0 {
		if t.err != nil {
			return 0, t.err
		}
		came, err := t.webBody.Read(t.plain[t.have:])
		t.err = err
		t.position.Pass(t.plain[t.have : t.have+came])
		n := t.have + came
		whole := n - n%triple
		if t.position.Between() || err != nil {
			whole = n
		}
		base64.StdEncoding.Encode(t.letters[:], t.plain[:whole])
		t.ready = t.letters[:base64.StdEncoding.EncodedLen(whole)]
		t.have = copy(t.plain[:], t.plain[whole:n])
		if came == 0 && err == nil {
			return 0, nil
		}
	}
	n := copy(p, t.ready)
	t.ready = t.ready[n:]
	return n, nil
}

// Buffered is how much of it is there.
func (t *textWriter) Buffered() int { return len(t.ready) }

// Close closes the endpoint's body.
func (t *textWriter) Close() error {
	t.ready, t.err = nil, errClosed
	return t.webBody.Close()
}
