// Package wire turns the bytes of HTTP/1.1 (RFC 9112) into messages and back:
// start lines, field lines, framing, the chunked coding with its trailers, and
// the limits on all of them. It does no I/O, keeps no connection, and has no
// policy: whom to answer what, and what an endpoint may see, is decided above.
//
// It is strict. What two readers could understand in two ways is refused, by
// one named error per rule. The verdict about some bytes, and what they mean,
// are the same however the bytes are split over calls. Of several faults the
// first one in this order is told:
//
//  1. the start line: its beginning, the length of its target, its line end,
//     then its parts from left to right but for the version, which comes before
//     the form of the target;
//  2. the line ends of the field lines, and HeaderBytes, by position;
//  3. the field lines, one after another;
//  4. what they mean together: Host, then the framing.
//
// So a fault in the start line, or of a line's end, shows before the whole head
// has come.
package wire

// Limits bound what a head may take. 0 is no bound.
type Limits struct {
	// HeaderBytes bounds a head from its start line to its empty line. The
	// extensions and trailers of a chunked body count towards it; where it is 0,
	// they have a bound of their own.
	HeaderBytes int
	Headers     int // field lines of a head, and those of a trailer
	URIBytes    int // the target of a request
}

// Body says how the end of a message's body is found (RFC 9112 6.3).
type Body uint8

// The ways in which a body ends.
const (
	NoBody      Body = iota
	Sized            // after Framing.Length bytes
	ChunkedBody      // with its last chunk; see Chunked
	UntilClose       // with the connection; responses only
)

// Framing is what a head says about what follows it.
type Framing struct {
	Body   Body
	Length int64 // of the body: its bytes, 0 without one, else -1, message.Unknown

	// Close says that the connection cannot carry another message after this
	// one: by version and Connection, by a body that ends with it, or because
	// more may follow than a body that must not be there.
	Close bool
	// KeepAlive says that an HTTP/1.0 message asks for a connection that lasts
	// (RFC 9112 C.2.2).
	KeepAlive bool
	// Expect says that the client waits for 100 Continue before its body (RFC
	// 9110 10.1.1). What else Expect may ask stays among the fields.
	Expect bool
	// Upgrade: a request offers another protocol (RFC 9110 7.8); after a
	// response no HTTP follows, because it is a 101 or opens a tunnel.
	Upgrade bool
}
