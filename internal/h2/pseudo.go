package h2

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// pseudo are the fields that make a request's first line (RFC 9113 8.3.1).
type pseudo struct {
	method, scheme, authority, path, protocol string
	seen                                      pseudoSet
}

type pseudoSet uint8

const (
	seenMethod pseudoSet = 1 << iota
	seenScheme
	seenAuthority
	seenPath
	seenProtocol
)

// take takes a field; it may be there once.
func (p *pseudo) take(field *hpack.HeaderField) error {
	var which pseudoSet
	var where *string
	switch field.Name {
	case ":method":
		which, where = seenMethod, &p.method
	case ":scheme":
		which, where = seenScheme, &p.scheme
	case ":authority":
		which, where = seenAuthority, &p.authority
	case ":path":
		which, where = seenPath, &p.path
	case ":protocol":
		which, where = seenProtocol, &p.protocol
	default:
		return ErrPseudoField
	}
	if p.seen&which != 0 {
		return ErrPseudoField
	}
	p.seen |= which
	*where = field.Value
	return nil
}

// check holds them to RFC 9113 8.3.1 and 8.5 and to RFC 8441 4.
func (p *pseudo) check() error {
	const whole = seenMethod | seenScheme | seenPath
	switch {
	case p.seen&seenProtocol != 0 && (p.method != http.MethodConnect || p.protocol == "" || p.seen&seenAuthority == 0):
		return ErrPseudoField
	case p.method == http.MethodConnect && p.seen&seenProtocol == 0:
		if p.seen != seenMethod|seenAuthority {
			return ErrPseudoField
		}
	case p.seen&whole != whole:
		return ErrPseudoField
	case !httpguts.ValidHeaderFieldName(p.method): // a token as well
		return ErrMethod
	case p.scheme != "http" && p.scheme != "https":
		return ErrScheme
	case !validPath(p.path, p.method):
		return ErrPath
	}
	if p.seen&seenAuthority != 0 && (p.authority == "" || strings.Contains(p.authority, "@") || !httpguts.ValidHostHeader(p.authority)) {
		return ErrAuthority
	}
	return nil
}

// validPath tells whether a :path is one, as far as it matters for framing
// elsewhere. What its escapes mean is for others to say.
func validPath(path, method string) bool {
	if path == "*" {
		return method == http.MethodOptions
	}
	if path == "" || path[0] != '/' {
		return false
	}
	for i := range len(path) {
		if path[i] <= ' ' || path[i] == 0x7f {
			return false
		}
	}
	return true
}
