package wire

import (
	"encoding/binary"
	"math/bits"
)

// token are the bytes of tokens (RFC 9110 5.6.2): names, methods.
var token = set(func(c byte) bool {
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
})

// target are the bytes that pass in a request target: visible ones but for the
// fragment's "#". Bytes from 0x80 on belong to no URI, but clients send them raw
// in paths and queries; every server passes them, and nothing here depends on
// what they mean.
var target = set(func(c byte) bool { return c > ' ' && c != 0x7f && c != '#' })

// digit gives hexadecimal digits their value plus one, and other bytes 0.
var digit = func() (values [256]byte) {
	for i, c := range []byte("0123456789abcdef") {
		values[c] = byte(i + 1)
	}
	for i, c := range []byte("ABCDEF") {
		values[c] = byte(i + 11)
	}
	return values
}()

func set(member func(c byte) bool) (members [256]bool) {
	for c := range members {
		members[c] = member(byte(c))
	}
	return members
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// control returns where, from i on, the first control character but a tab
// stands, or len(data). It looks at eight bytes at a time: values are most of a
// head.
func control(data []byte, i int) int {
	for i+8 <= len(data) {
		eight := binary.LittleEndian.Uint64(data[i:])
		deletes := eight ^ ones*0x7f
		// The lowest mark is right; above it a borrow may set others.
		marks := ((eight-ones*' ')&^eight | (deletes-ones)&^deletes) & highs
		if marks == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(marks) / 8
		if data[i] != '\t' {
			return i
		}
		i++
	}
	for ; i < len(data); i++ {
		if c := data[i]; c < ' ' && c != '\t' || c == 0x7f {
			return i
		}
	}
	return i
}

// isToken tells whether s is a token.
func isToken(s string) bool {
	for i := range len(s) {
		if !token[s[i]] {
			return false
		}
	}
	return s != ""
}

// trim takes spaces and tabs off both ends.
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// fold tells whether s is word but for the case of letters; word is in lower
// case.
func fold(s, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i := range len(word) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// member cuts the first member off a list of tokens (RFC 9110 5.6.1).
func member(list string) (first, rest string, more bool) {
	for i := range len(list) {
		if list[i] == ',' {
			return trim(list[:i]), list[i+1:], true
		}
	}
	return trim(list), "", false
}
