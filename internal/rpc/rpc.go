// Package rpc holds what a gateway has to know of gRPC: which messages belong to
// a call, status codes, deadlines, and how messages follow one another in a body.
// It does no I/O, and knows neither HTTP nor protobuf: what is in a message stays
// the business of both ends.
//
// It follows doc/PROTOCOL-HTTP2.md and doc/PROTOCOL-WEB.md of grpc/grpc.
package rpc

import "strings"

// Form is how a call is carried.
type Form uint8

// The forms that a call can have.
const (
	None    Form = iota // no gRPC
	Plain               // application/grpc: gRPC itself, over HTTP/2 or 3
	Web                 // application/grpc-web: trailers stand in the body
	WebText             // application/grpc-web-text: the same in base64
)

// kinds are the media types of the forms.
var kinds = [...]string{Plain: "application/grpc", Web: "application/grpc-web", WebText: "application/grpc-web-text"}

// IsWeb tells whether it is one of the forms for browsers.
func (f Form) IsWeb() bool { return f == Web || f == WebText }

// ContentType is the value of Content-Type for a form, which is not None. suffix
// names the encoding of its messages, as +proto; it may be empty.
func (f Form) ContentType(suffix string) string { return kinds[f] + suffix }

// FormOf returns the form that a Content-Type or a member of Accept names, with
// its suffix, which is + and a name, or empty.
func FormOf(contentType string) (form Form, suffix string) {
	if len(contentType) < len(kinds[Plain]) { // nearly all that is none ends here or below
		return None, ""
	}
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.Trim(kind, " \t")
	if plus := strings.IndexByte(kind, '+'); plus >= 0 {
		kind, suffix = kind[:plus], kind[plus:]
	}
	for form := Plain; form <= WebText; form++ {
		if strings.EqualFold(kind, kinds[form]) {
			return form, suffix
		}
	}
	return None, ""
}

// The fields of a call.
const (
	StatusField        = "grpc-status"
	MessageField       = "grpc-message"
	DetailsField       = "grpc-status-details-bin"
	RetryPushbackField = "grpc-retry-pushback-ms" // how long a client waits before it tries again
)

const hexDigits = "0123456789ABCDEF"

// EscapeMessage makes a text a value of grpc-message: what is not printable
// ASCII, and %, is percent-encoded.
func EscapeMessage(text string) string {
	plain := func(c byte) bool { return c >= ' ' && c <= '~' && c != '%' }
	escaped := 0
	for i := range len(text) {
		if !plain(text[i]) {
			escaped++
		}
	}
	if escaped == 0 {
		return text
	}
	out := make([]byte, 0, len(text)+2*escaped)
	for i := range len(text) {
		if c := text[i]; plain(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(out)
}
