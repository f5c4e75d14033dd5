package h2

import (
	"errors"
	"fmt"

	"golang.org/x/net/http2"
)

// ProtocolError is a rule that a client broke. On a connection it ends that with
// GOAWAY, on a stream that with RST_STREAM, both with Code (RFC 9113 5.4). The
// variables of this package name every rule; errors.Is finds them behind what
// Serve returns and behind the cause of a request's context.
type ProtocolError struct {
	Code http2.ErrCode
	Rule string
}

// Error tells the rule and the code.
func (e *ProtocolError) Error() string { return e.Rule + " (" + e.Code.String() + ")" }

// ResetError is the cause of a request's context that the client ended with
// RST_STREAM, and what reading its body and writing its response then give.
type ResetError struct{ Code http2.ErrCode }

// Error tells the client's code.
func (e *ResetError) Error() string { return "the client reset the stream: " + e.Code.String() }

// Rules of a connection.
var (
	ErrPreface         = &ProtocolError{http2.ErrCodeProtocol, "the connection does not begin with the preface of HTTP/2 and SETTINGS"}
	ErrFrame           = &ProtocolError{http2.ErrCodeProtocol, "a malformed frame, or one out of its order"}
	ErrFrameSize       = &ProtocolError{http2.ErrCodeFrameSize, "a frame of a wrong size"}
	ErrStreamID        = &ProtocolError{http2.ErrCodeProtocol, "a stream identifier that no client may use there"}
	ErrPush            = &ProtocolError{http2.ErrCodeProtocol, "PUSH_PROMISE from a client"}
	ErrClosedStream    = &ProtocolError{http2.ErrCodeStreamClosed, "a frame on a closed stream"}
	ErrSetting         = &ProtocolError{http2.ErrCodeProtocol, "a setting with a value that it cannot have"}
	ErrWindow          = &ProtocolError{http2.ErrCodeFlowControl, "more than a flow-control window, or a window past its maximum"}
	ErrWindowZero      = &ProtocolError{http2.ErrCodeProtocol, "WINDOW_UPDATE by nothing"}
	ErrCompression     = &ProtocolError{http2.ErrCodeCompression, "a header block that cannot be decoded"}
	ErrSettingsTimeout = &ProtocolError{http2.ErrCodeSettingsTimeout, "SETTINGS were not acknowledged in time"}
	ErrHeaderTimeout   = &ProtocolError{http2.ErrCodeProtocol, "a header block did not come in time"}
)

// Floods: what a client may do, but not so much of. All end the connection.
var (
	ErrRapidReset    = &ProtocolError{http2.ErrCodeEnhanceYourCalm, "streams are reset faster than served"}
	ErrControlFlood  = &ProtocolError{http2.ErrCodeEnhanceYourCalm, "too many frames that carry nothing"}
	ErrReplyFlood    = &ProtocolError{http2.ErrCodeEnhanceYourCalm, "frames ask for replies that are not read"}
	ErrContinuations = &ProtocolError{http2.ErrCodeEnhanceYourCalm, "a header block of too many frames"}
	ErrHeaderBlock   = &ProtocolError{http2.ErrCodeEnhanceYourCalm, "a header block that is far too large"}
)

// Rules of a stream.
var (
	ErrRefused       = &ProtocolError{http2.ErrCodeRefusedStream, "more streams than SETTINGS_MAX_CONCURRENT_STREAMS"}
	ErrSelfDepend    = &ProtocolError{http2.ErrCodeProtocol, "a stream that depends on itself"}
	ErrFieldName     = &ProtocolError{http2.ErrCodeProtocol, "a field name that is invalid or not in lower case"}
	ErrFieldValue    = &ProtocolError{http2.ErrCodeProtocol, "an invalid field value"}
	ErrConnField     = &ProtocolError{http2.ErrCodeProtocol, "a field that is about the connection"}
	ErrPseudoField   = &ProtocolError{http2.ErrCodeProtocol, "a pseudo-header field that is unknown, repeated, late, missing or out of place"}
	ErrMethod        = &ProtocolError{http2.ErrCodeProtocol, "an invalid :method"}
	ErrScheme        = &ProtocolError{http2.ErrCodeProtocol, "an invalid :scheme"}
	ErrPath          = &ProtocolError{http2.ErrCodeProtocol, "an invalid :path"}
	ErrAuthority     = &ProtocolError{http2.ErrCodeProtocol, "an invalid :authority or Host, or one that is not the other"}
	ErrLength        = &ProtocolError{http2.ErrCodeProtocol, "a Content-Length that is invalid or not that of the content"}
	ErrTrailers      = &ProtocolError{http2.ErrCodeProtocol, "trailers that do not end the stream"}
	ErrTrailersLarge = &ProtocolError{http2.ErrCodeEnhanceYourCalm, "trailers that are too large"}
)

// ErrClosed is the cause of requests whose connection has ended.
var ErrClosed = errors.New("the connection has ended")

// errStalled is what a handler is told whose write came to nothing because the
// client took no byte for Options.StallTimeout.
var errStalled = errors.New("the client takes nothing of the response")

var errStreamOver = errors.New("the stream has ended")

// broken says that an error of reading or writing ended the connection.
func broken(err error) error { return fmt.Errorf("%w: %w", ErrClosed, err) }

// ruleOf is the rule that an error tells of, or nil.
func ruleOf(err error) *ProtocolError {
	var rule *ProtocolError
	if errors.As(err, &rule) {
		return rule
	}
	return nil
}
