package auth

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// scanner reads the structured fields (RFC 9651) that signatures and digests stand in:
// of their types those that these have, and strictly. What it does not know it refuses,
// since nothing that is signed may be read in two ways. After a fault ok is false, and
// what is read means nothing.
type scanner struct {
	rest string
	bad  bool
}

// take reads a text that must come next.
func (s *scanner) take(text string) {
	rest, ok := strings.CutPrefix(s.rest, text)
	if s.rest = rest; !ok {
		s.bad = true
	}
}

// next tells whether a byte comes next, and reads it.
func (s *scanner) next(c byte) bool {
	if s.bad || s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// key reads the name of a member or a parameter (RFC 9651 3.1.2).
func (s *scanner) key() string {
	n := 0
	for ; n < len(s.rest); n++ {
		c := s.rest[n]
		if 'a' <= c && c <= 'z' || c == '*' || n > 0 && ('0' <= c && c <= '9' || c == '_' || c == '-' || c == '.') {
			continue
		}
		break
	}
	key := s.rest[:n]
	s.rest = s.rest[n:]
	s.bad = s.bad || n == 0
	return key
}

// text reads a string (3.3.3).
func (s *scanner) text() string {
	s.take(`"`)
	var out strings.Builder
	for i := 0; i < len(s.rest) && !s.bad; i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			return out.String()
		case c == '\\':
			if i++; i == len(s.rest) || s.rest[i] != '"' && s.rest[i] != '\\' {
				s.bad = true
				return ""
			}
			out.WriteByte(s.rest[i])
		case c < ' ' || c > '~':
			s.bad = true
			return ""
		default:
			out.WriteByte(c)
		}
	}
	s.bad = true
	return ""
}

// bytes reads a byte sequence (3.3.5).
func (s *scanner) bytes() []byte {
	s.take(":")
	encoded, rest, ok := strings.Cut(s.rest, ":")
	data, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if s.rest = rest; !ok || err != nil || strings.ContainsAny(encoded, "\r\n") {
		s.bad = true
	}
	return data
}

// integer reads an integer (3.3.1), of the one form in which it is written.
func (s *scanner) integer() int64 {
	end := len(s.rest) - len(strings.TrimLeft(s.rest, "-0123456789"))
	number, err := strconv.ParseInt(s.rest[:end], 10, 64)
	const most = 999_999_999_999_999
	if err != nil || number > most || number < -most || strconv.FormatInt(number, 10) != s.rest[:end] {
		s.bad = true
	}
	s.rest = s.rest[end:]
	return number
}

// item reads a value of any type (3.3), of which nothing is told but where it ends.
func (s *scanner) item() {
	switch {
	case strings.HasPrefix(s.rest, `"`):
		s.text()
	case strings.HasPrefix(s.rest, ":"):
		s.bytes()
	case strings.HasPrefix(s.rest, `%"`): // a quote within it is written as %22
		_, rest, ok := strings.Cut(s.rest[len(`%"`):], `"`)
		s.rest, s.bad = rest, s.bad || !ok
	default: // numbers, dates, truth values and tokens have no end but what cannot be in them
		end := len(s.rest) - len(strings.TrimLeft(s.rest, "?@:/!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
		s.rest, s.bad = s.rest[end:], s.bad || end == 0
	}
}

// parameters reads those of an item (3.1.2), and tells whether there are any.
func (s *scanner) parameters() (there bool) {
	for n := 0; s.next(';'); n++ {
		there = true
		s.rest = strings.TrimLeft(s.rest, " ")
		s.key()
		if s.next('=') {
			s.item()
		}
		s.bad = s.bad || n >= mostMembers
	}
	return there
}

// mostMembers bounds what is looked at of a dictionary, and of a list within it.
const mostMembers = 32

// dictionary reads a dictionary (3.2), of which member reads the values. A name that is
// here twice is a fault: others take the last one.
func (s *scanner) dictionary(member func(name string)) (ok bool) {
	seen := map[string]bool{}
	s.rest = strings.Trim(s.rest, " ")
	for !s.bad {
		name := s.key()
		s.take("=")
		if s.bad || seen[name] || len(seen) >= mostMembers {
			return false
		}
		seen[name] = true
		member(name)
		if s.rest == "" {
			break
		}
		s.rest = strings.TrimLeft(s.rest, " \t")
		s.take(",")
		s.rest = strings.TrimLeft(s.rest, " \t")
	}
	return !s.bad
}
