package message

import "strings"

// Parameter returns the first value of a name in a query, still encoded, and
// whether the name is there. Only & parts parameters.
func Parameter(query, name string) (string, bool) {
	query = strings.TrimPrefix(query, "?")
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		if ParameterIs(key, name) {
			return value, true
		}
	}
	return "", false
}

// ParameterIs tells whether a part of a query is text once it is decoded,
// without the cost of decoding it.
func ParameterIs(encoded, text string) bool {
	if len(encoded) < len(text) {
		return false
	}
	at := 0
	for i := 0; i < len(encoded); at++ {
		c, size := next(encoded[i:])
		if at == len(text) || text[at] != c {
			return false
		}
		i += size
	}
	return at == len(text)
}

// DecodeParameter decodes a part of a query.
func DecodeParameter(encoded string) string {
	if !strings.ContainsAny(encoded, "%+") {
		return encoded
	}
	var out strings.Builder
	out.Grow(len(encoded))
	for i := 0; i < len(encoded); {
		c, size := next(encoded[i:])
		out.WriteByte(c)
		i += size
	}
	return out.String()
}

// next returns the first decoded byte and how many bytes it takes: + is a
// space, an escape that is not one stays as it is.
func next(encoded string) (byte, int) {
	switch c := encoded[0]; c {
	case '+':
		return ' ', 1
	case '%':
		if len(encoded) >= 3 {
			high, low := digit(encoded[1]), digit(encoded[2])
			if high < 16 && low < 16 {
				return high<<4 | low, 3
			}
		}
		return c, 1
	default:
		return c, 1
	}
}

// digit is the value of a hexadecimal digit, 16 for anything else.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
