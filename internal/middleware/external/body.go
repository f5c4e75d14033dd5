package external

import (
	"io"
	"strings"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// bodySettings are how much of a body a service is told.
type bodySettings struct {
	Max     int64
	Partial bool
	Raw     bool
}

// copied is what a service is told of the body of a request.
type copied struct {
	text    string
	partial bool // there is more
	raw     bool
}

// partialBody is the field by which Envoy tells a service whether there is more.
const partialBody = "X-Envoy-Auth-Partial-Body"

func (c *copied) partially() string {
	if c.partial {
		return "true"
	}
	return "false"
}

// copy reads of a body what the service is told, and puts it back: the destination gets the
// same bytes. A body that is larger than may be told is 413 body_too_large, unless a part is
// enough; what else goes wrong is the client's doing.
func (s *bodySettings) copy(r *message.Request) (*copied, error) {
	c := &copied{raw: s.Raw}
	if r.Body == nil {
		return c, nil
	}
	if r.Length > s.Max && !s.Partial {
		return nil, tooLarge()
	}
	most := s.Max
	if r.Length <= s.Max {
		most++ // one more tells "all" from "too much", where the length does not
	}
	var read strings.Builder
	if _, err := io.Copy(&read, io.LimitReader(r.Body, most)); err != nil {
		return nil, err
	}
	c.text = read.String()
	if c.partial = r.Length > s.Max || int64(len(c.text)) > s.Max; !c.partial {
		r.Body = &putBack{c.text, nil, r.Body}
		return c, nil
	}
	r.Body = &putBack{c.text, r.Body, r.Body}
	c.text = c.text[:min(int64(len(c.text)), s.Max)]
	if !s.Partial {
		return nil, tooLarge()
	}
	return c, nil
}

// tooLarge closes the connection: the rest of the body is not worth reading.
func tooLarge() error {
	err := pipeline.NewError(pipeline.BodyTooLarge, nil)
	err.Close = true
	return err
}

// putBack is a body of which the beginning was read.
type putBack struct {
	read string
	rest io.Reader // nil: it was all
	from io.Closer
}

// Read reads what was read once more, then the rest.
func (b *putBack) Read(p []byte) (int, error) {
	switch {
	case b.read != "":
		n := copy(p, b.read)
		b.read = b.read[n:]
		return n, nil
	case b.rest == nil:
		return 0, io.EOF
	}
	return b.rest.Read(p)
}

// Buffered is how much of it is there.
func (b *putBack) Buffered() int {
	if b.read == "" && b.rest != nil {
		return message.Buffered(b.rest)
	}
	return len(b.read)
}

// Close closes what it was read from.
func (b *putBack) Close() error {
	b.read, b.rest = "", nil
	return b.from.Close()
}
