package message

// Alike tells whether two field names are one to endpoints that make variables of them
// (RFC 3875 4.1.18): neither case counts, nor whether it is - or _.
func Alike(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if variable(a[i]) != variable(b[i]) {
			return false
		}
	}
	return true
}

func variable(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}
