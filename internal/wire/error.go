package wire

// Kind says what a peer did wrong, as coarsely as an answer can tell it.
type Kind uint8

// The kinds, with the status that answers a request.
const (
	Malformed      Kind = iota // 400
	BadVersion                 // 505
	NotImplemented             // 501: a transfer coding other than chunked
	URITooLong                 // 414
	HeaderTooLarge             // 431
)

// Error is a rule that a message breaks, or one that could not be written. Its
// values are the variables of this package: compare them with errors.Is.
type Error struct {
	Kind Kind
	Rule string // what is wrong; names no bytes of the peer
}

func (e *Error) Error() string { return e.Rule }

// Start lines (RFC 9112 3, 4).
var (
	ErrMethod             = &Error{Malformed, "the method is not a token"}
	ErrURITooLong         = &Error{URITooLong, "the target is too long"}
	ErrNoVersion          = &Error{Malformed, "the request line has no version"}
	ErrRequestLine        = &Error{Malformed, "the request line is not three parts with one space between"}
	ErrVersion            = &Error{Malformed, "the version is malformed"}
	ErrUnsupportedVersion = &Error{BadVersion, "the version is neither HTTP/1.0 nor HTTP/1.1"}
	ErrTarget             = &Error{Malformed, "the target has a character that must be escaped, or a fragment"}
	ErrTargetForm         = &Error{Malformed, "the target has a form that its method does not take"}
	ErrAuthority          = &Error{Malformed, "the authority of the target is invalid"}
	ErrStatusLine         = &Error{Malformed, "the status line is malformed"}
	ErrStatus             = &Error{Malformed, "the status is not three digits from 100 to 599"}
	ErrReason             = &Error{Malformed, "the reason phrase has a control character"}
)

// Lines and fields (RFC 9112 2.2, 5).
var (
	ErrBareLF         = &Error{Malformed, "a line ends without a carriage return"}
	ErrBareCR         = &Error{Malformed, "a carriage return stands without a line feed"}
	ErrHeaderTooLarge = &Error{HeaderTooLarge, "the header section is too large"}
	ErrTooManyFields  = &Error{HeaderTooLarge, "there are too many field lines"}
	ErrFold           = &Error{Malformed, "a field line begins with white space"}
	ErrNoColon        = &Error{Malformed, "a field line has no colon"}
	ErrNameSpace      = &Error{Malformed, "white space stands between a field's name and its colon"}
	ErrFieldName      = &Error{Malformed, "a field's name is not a token"}
	ErrFieldValue     = &Error{Malformed, "a field's value has a control character"}
)

// Host (RFC 9112 3.2).
var (
	ErrNoHost   = &Error{Malformed, "there is no Host"}
	ErrTwoHosts = &Error{Malformed, "there is more than one Host"}
	ErrHost     = &Error{Malformed, "Host is not a valid authority"}
)

// Framing (RFC 9112 6).
var (
	ErrLength          = &Error{Malformed, "Content-Length is not a decimal number, or is too large"}
	ErrLengths         = &Error{Malformed, "Content-Length is told twice, differently"}
	ErrLengthAndCoding = &Error{Malformed, "both Content-Length and Transfer-Encoding are told"}
	ErrCoding          = &Error{Malformed, "Transfer-Encoding is malformed"}
	ErrChunkedNotLast  = &Error{Malformed, "chunked is not the one last transfer coding"}
	ErrUnknownCoding   = &Error{NotImplemented, "a transfer coding other than chunked"}
	ErrCodingIn10      = &Error{Malformed, "Transfer-Encoding in HTTP/1.0"}
	ErrCodingIn1xx     = &Error{Malformed, "Transfer-Encoding in an informational response"}
	ErrTrailerName     = &Error{Malformed, "Trailer announces a field that frames the message"}
)

// The chunked coding (RFC 9112 7.1). Trailers have the rules of fields, too.
var (
	ErrChunkSize      = &Error{Malformed, "a chunk's size is not 1 to 16 hexadecimal digits, or is too large"}
	ErrChunkExtension = &Error{Malformed, "a chunk's extension has a control character"}
	ErrChunkEnd       = &Error{Malformed, "a chunk is longer than its size"}
)

// Writing.
var (
	ErrPath = &Error{Malformed, "the path or query cannot stand in a request line"}
	ErrBody = &Error{Malformed, "the message cannot have a body that ends so"}
)
