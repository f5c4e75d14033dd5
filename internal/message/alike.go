package message

import "slices"

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

// DeleteAlike removes every line whose name is alike.
func (f *Fields) DeleteAlike(name string) {
	for i := range *f {
		if Alike((*f)[i].Name, name) {
			rest := slices.DeleteFunc((*f)[i:], func(l Field) bool { return Alike(l.Name, name) })
			*f = (*f)[:i+len(rest)]
			return
		}
	}
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
