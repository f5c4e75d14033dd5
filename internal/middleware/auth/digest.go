package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"io"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// verifyBody reads the body of a request and holds it to its digest, which the signature
// has to cover. The request has the same body afterwards, in memory.
func (g *hmacGate) verifyBody(x *pipeline.Exchange, sig *signature) error {
	r := x.Request
	covered := sig.has("content-digest")
	if r.Length > g.MaxBody {
		return tooLarge()
	}
	if r.Length > 0 && !covered {
		return g.refuse(errCovered)
	}
	body, err := readBody(r, g.MaxBody, covered)
	switch {
	case err != nil:
		return err
	case !covered && len(body) > 0:
		return g.refuse(errCovered)
	case covered && !digestedAside(x, body):
		return g.refuse(errDigest)
	}
	if r.Trailer != nil {
		r.Trailer = nil
		r.Fields.Delete(message.Trailer.String())
	}
	return nil
}

// readBody reads a body and puts it back. Of one that must not be there, unless it is
// wanted, the first bytes are enough.
func readBody(r *message.Request, most int64, wanted bool) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if !wanted {
		most = 0
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case err != nil:
		return nil, err
	case !wanted && len(body) > 0:
		return body, nil // it is refused
	case int64(len(body)) > most:
		return nil, tooLarge()
	}
	already := &readAlready{from: r.Body}
	already.Reset(body)
	r.Body, r.Length = already, int64(len(body))
	return body, nil
}

// readAlready is a body that is in memory, with what it was read from.
type readAlready struct {
	bytes.Reader
	from io.Closer
}

// Buffered is all that is left.
func (b *readAlready) Buffered() int { return b.Len() }

// Close ends both.
func (b *readAlready) Close() error {
	b.Reset(nil)
	return b.from.Close()
}

// tooLarge closes the connection: the rest of the body is not worth reading.
func tooLarge() error {
	err := pipeline.NewError(pipeline.BodyTooLarge, nil)
	err.Close = true
	return err
}

// longBody is a body of more bytes than these, whose digests are computed aside, as others
// wait for as long as it takes.
const longBody = 128 << 10

// digestedAside is digested for the request of an exchange.
func digestedAside(x *pipeline.Exchange, body []byte) (good bool) {
	if len(body) <= longBody {
		return digested(x.Request.Fields, body)
	}
	x.Wait(func() { good = digested(x.Request.Fields, body) })
	return good
}

// digested tells whether Content-Digest (RFC 9530 2) is that of a body: it has one
// digest at least that can be computed, and all that can be are right.
func digested(fields message.Fields, body []byte) bool {
	field, there := joined(fields, "content-digest")
	if !there {
		return false
	}
	good, known := true, 0
	s := scanner{rest: field}
	ok := s.dictionary(func(algorithm string) {
		told := s.bytes()
		switch algorithm {
		case "sha-256":
			sum := sha256.Sum256(body)
			good = subtle.ConstantTimeCompare(sum[:], told) == 1 && good
		case "sha-512":
			sum := sha512.Sum512(body)
			good = subtle.ConstantTimeCompare(sum[:], told) == 1 && good
		default:
			return
		}
		known++
	})
	return ok && good && known > 0
}
