package wire

import (
	"strconv"

	"sluice/internal/canonical"
	"sluice/internal/message"
)

// AppendRequestHead appends the head of a request in HTTP/1.1: its method, Path
// and Query, Host, then the fields in their order, then what f says of the
// body and the connection, then the empty line.
//
// Host, Content-Length and Transfer-Encoding among the fields are left out: they
// follow from the message. So is Connection where f says that the connection
// closes or lasts. A request without a body tells Content-Length 0 if its method
// makes a receiver expect one.
//
// Everything is checked: what could not be read back as the same request is an
// error, and dst comes back as it was. An empty Host passes: a message without
// an authority has it so (RFC 9112 3.2). Nothing is allocated where dst has room.
func AppendRequestHead(dst []byte, r *message.Request, f Framing) ([]byte, error) {
	b := dst
	switch {
	case !isToken(r.Method):
		return dst, ErrMethod
	case r.Host != "" && !canonical.ValidAuthority(r.Host):
		return dst, ErrHost
	case f.Body == UntilClose:
		return dst, ErrBody
	}
	b = append(b, r.Method...)
	b = append(b, ' ')
	from := len(b)
	b = append(b, r.Path...)
	path := len(b)
	b = append(b, r.Query...)
	if !writable(r, b[from:path], b[path:]) {
		return dst, ErrPath
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, r.Host...)
	b = append(b, "\r\n"...)
	b, err := appendFields(b, r.Fields, &f, true)
	if err != nil {
		return dst, err
	}
	switch {
	case f.Body != NoBody:
		b, err = appendFraming(b, f)
	case r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH": // RFC 9110 8.6
		b = append(b, "Content-Length: 0\r\n"...)
	}
	if err != nil {
		return dst, err
	}
	return append(b, "\r\n"...), nil
}

// writable tells whether path and query can stand in a request line.
func writable(r *message.Request, path, query []byte) bool {
	for _, c := range path {
		if !target[c] || c == '?' {
			return false
		}
	}
	for _, c := range query {
		if !target[c] {
			return false
		}
	}
	switch {
	case r.Method == "CONNECT" || len(path) == 0 || len(query) > 0 && query[0] != '?':
		return false
	case path[0] == '/':
		return true
	}
	return string(path) == "*" && len(query) == 0 && r.Method == "OPTIONS"
}

// AppendResponseHead appends the head of a response: a status line of HTTP/1.1,
// which is right towards a client of HTTP/1.0, too, the fields in their order,
// what f says of the body and the connection, and the empty line. It is the same
// for 1xx.
//
// Content-Length and Transfer-Encoding among the fields are left out, as is
// Connection where f says that the connection closes or lasts. Without a body,
// Content-Length tells r.Length unless that is message.Unknown: 0 for one that
// could be there, the length of what is not sent in an answer to HEAD or a 304.
// 1xx and 204 have none, ever. A body that ends with the connection closes it,
// whatever f says. The caller knows whether the client takes a chunked body.
//
// Everything is checked as in AppendRequestHead.
func AppendResponseHead(dst []byte, r *message.Response, f Framing) ([]byte, error) {
	if r.Status < 100 || r.Status > 599 {
		return dst, ErrStatus
	}
	bare := r.Status < 200 || r.Status == 204
	if f.Body != NoBody && (bare || r.Status == 304) {
		return dst, ErrBody
	}
	f.Close = f.Close || f.Body == UntilClose
	b := dst
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = append(b, message.Reason(r.Status)...)
	b = append(b, "\r\n"...)
	b, err := appendFields(b, r.Fields, &f, false)
	if err != nil {
		return dst, err
	}
	switch {
	case f.Body != NoBody:
		b, err = appendFraming(b, f)
	case !bare && r.Length >= 0:
		b = appendLength(b, r.Length)
	}
	if err != nil {
		return dst, err
	}
	return append(b, "\r\n"...), nil
}

func appendFields(b []byte, fields message.Fields, f *Framing, request bool) ([]byte, error) {
	own := f.Close || f.KeepAlive
	for i := range fields {
		field := &fields[i]
		switch field.ID {
		case message.Host:
			if request {
				continue
			}
		case message.ContentLength, message.TransferEncoding:
			continue
		case message.Connection:
			if own {
				continue
			}
		}
		var err error
		if b, err = appendField(b, field); err != nil {
			return b, err
		}
	}
	switch {
	case f.Close:
		b = append(b, "Connection: close\r\n"...)
	case f.KeepAlive:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	return b, nil
}

// appendField appends a field line. A value with white space around it would
// read back without; it is written as it is.
func appendField(b []byte, field *message.Field) ([]byte, error) {
	if !isToken(field.Name) {
		return b, ErrFieldName
	}
	b = append(b, field.Name...)
	b = append(b, ": "...)
	from := len(b)
	b = append(b, field.Value...)
	if control(b, from) < len(b) {
		return b, ErrFieldValue
	}
	return append(b, "\r\n"...), nil
}

func appendFraming(b []byte, f Framing) ([]byte, error) {
	switch f.Body {
	case NoBody, UntilClose:
	case ChunkedBody:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case Sized:
		if f.Length < 0 {
			return b, ErrLength
		}
		b = appendLength(b, f.Length)
	}
	return b, nil
}

func appendLength(b []byte, length int64) []byte {
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, length, 10)
	return append(b, "\r\n"...)
}

// ChunkEnd follows the payload of a chunk.
const ChunkEnd = "\r\n"

// AppendChunkHeader appends what stands before a chunk's payload of size bytes.
// The payload follows, then ChunkEnd. A size of 0 would end the body: see
// AppendLastChunk.
func AppendChunkHeader(dst []byte, size int64) []byte {
	if size <= 0 {
		panic("BUG: a chunk of no size")
	}
	dst = strconv.AppendInt(dst, size, 16)
	return append(dst, "\r\n"...)
}

// AppendChunk appends a whole chunk. An empty payload makes none.
func AppendChunk(dst, payload []byte) []byte {
	if len(payload) == 0 {
		return dst
	}
	dst = AppendChunkHeader(dst, int64(len(payload)))
	dst = append(dst, payload...)
	return append(dst, ChunkEnd...)
}

// AppendLastChunk appends what ends a chunked body: the last chunk, and the
// trailer without those fields that may not be in one (see ForbiddenTrailer).
// What is no field is an error, and dst comes back as it was.
func AppendLastChunk(dst []byte, trailer message.Fields) ([]byte, error) {
	b := dst
	b = append(b, "0\r\n"...)
	for i := range trailer {
		if ForbiddenTrailer(trailer[i]) {
			continue
		}
		var err error
		if b, err = appendField(b, &trailer[i]); err != nil {
			return dst, err
		}
	}
	return append(b, "\r\n"...), nil
}
