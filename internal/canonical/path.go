// Package canonical gives request paths and hosts their one form, in which
// they are routed, authorised and forwarded (RFC 3986 6.2.2, RFC 9110 4.2.3).
// It decides nothing about a request beyond that form.
package canonical

import (
	"errors"
	"strings"
)

// EncodedSlash says what happens to %2F and %5C in a path.
type EncodedSlash string

// The treatments of an encoded slash.
const (
	Keep   EncodedSlash = "keep"   // it is data: stays encoded and never parts segments
	Refuse EncodedSlash = "refuse" // a violation; %5C alike
	Decode EncodedSlash = "decode" // %2F becomes a slash that parts segments
)

// Options are a listener's choices about paths.
type Options struct {
	KeepSlashes  bool // repeated slashes are not merged
	EncodedSlash EncodedSlash
}

// Violations of the rules of a path.
var (
	ErrNoSlash      = errors.New("the path does not begin with a slash")
	ErrEscape       = errors.New("the path has a percent sign that is not followed by two hexadecimal digits")
	ErrNUL          = errors.New("the path has a NUL")
	ErrControl      = errors.New("the path has a control character")
	ErrBackslash    = errors.New("the path has a backslash")
	ErrAboveRoot    = errors.New("the path climbs above the root")
	ErrHiddenDots   = errors.New("the path would gain a dot segment if its slashes were decoded")
	ErrEncodedSlash = errors.New("the path has an encoded slash or backslash")
)

// Path returns the canonical form of an encoded path, and the first rule that
// it breaks, if any. The form is usable even then: what cannot be mended stays
// as it came, a climb ends at the root; a listener in report mode goes on with it.
//
// Unreserved escapes are decoded, others get upper-case digits, and what may not
// stand in a path unescaped (RFC 3986 3.3) is escaped: a route cannot be passed
// by because a client wrote é or " as it is. Then dot segments are resolved (RFC 3986 5.2.4) and repeated slashes merged. The form
// of a form is itself.
func Path(raw string, options Options) (string, error) {
	if clean(raw) {
		return raw, nil
	}
	var violation error
	note := func(err error) {
		if violation == nil {
			violation = err
		}
	}
	if !strings.HasPrefix(raw, "/") {
		note(ErrNoSlash)
		raw = "/" + raw
	}
	text := escapes(raw, note)
	hidden(text, note)
	switch options.EncodedSlash {
	case Refuse:
		if strings.Contains(text, "%2F") || strings.Contains(text, "%5C") {
			note(ErrEncodedSlash)
		}
	case Decode:
		text = strings.ReplaceAll(text, "%2F", "/")
	case Keep:
	}
	return segments(text, options.KeepSlashes, note), violation
}

// clean tells whether a path is surely canonical already: the common case, for
// which nothing is allocated.
func clean(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for i := range len(path) {
		switch c := path[i]; {
		case !pathCharacter(c):
			return false
		case c == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.'):
			return false
		}
	}
	return true
}

// escapes decodes unreserved escapes and puts others into upper case. What it
// decodes never completes a stray percent sign to an escape.
func escapes(raw string, note func(error)) string {
	var out strings.Builder
	out.Grow(len(raw))
	stray := -len("%XX") // where the last one went
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == 0:
			note(ErrNUL)
		case c == '\\':
			note(ErrBackslash)
		case c < ' ' || c == 0x7f:
			note(ErrControl)
		}
		if c != '%' {
			if pathCharacter(c) || c == '\\' || c < ' ' || c == 0x7f {
				out.WriteByte(c) // a violation stays as it came
			} else {
				out.WriteByte('%')
				out.WriteByte(hexDigits[c>>4])
				out.WriteByte(hexDigits[c&15])
			}
			continue
		}
		if i+2 >= len(raw) || !isHex(raw[i+1]) || !isHex(raw[i+2]) {
			note(ErrEscape)
			stray = out.Len()
			out.WriteByte(c)
			continue
		}
		decoded := unhex(raw[i+1])<<4 | unhex(raw[i+2])
		switch {
		case unreserved(decoded) && out.Len() >= stray+len("%XX"):
			out.WriteByte(decoded)
		default:
			if decoded == 0 {
				note(ErrNUL)
			}
			out.WriteByte('%')
			out.WriteByte(upper(raw[i+1]))
			out.WriteByte(upper(raw[i+2]))
		}
		i += 2
	}
	return out.String()
}

// hidden finds segments that an endpoint which decodes slashes would read as
// dot segments.
func hidden(text string, note func(error)) {
	if !strings.Contains(text, "%2F") && !strings.Contains(text, "%5C") {
		return
	}
	for segment := range strings.SplitSeq(text, "/") {
		parts := strings.Split(strings.ReplaceAll(segment, "%5C", "%2F"), "%2F")
		for _, part := range parts {
			if len(parts) > 1 && (part == "." || part == "..") {
				note(ErrHiddenDots)
			}
		}
	}
}

// segments resolves dot segments and merges slashes.
func segments(text string, keepSlashes bool, note func(error)) string {
	parts := strings.Split(text[1:], "/")
	kept := parts[:0]
	for i, part := range parts {
		last := i == len(parts)-1
		switch part {
		case ".":
		case "..":
			if len(kept) == 0 {
				note(ErrAboveRoot)
			} else {
				kept = kept[:len(kept)-1]
			}
		case "":
			if keepSlashes && !last {
				kept = append(kept, part)
			}
		default:
			kept = append(kept, part)
			continue
		}
		if last { // an ending slash or dot segment leaves a slash
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

const hexDigits = "0123456789ABCDEF"

// pathCharacter tells whether a byte may stand in a path as it is: a slash or
// pchar without escapes.
func pathCharacter(c byte) bool {
	return unreserved(c) || c == '/' || c == ':' || c == '@' || strings.IndexByte("!$&'()*+,;=", c) >= 0
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}
