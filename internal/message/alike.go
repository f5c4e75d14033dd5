package message

import (
	"slices"
	"strings"
)

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

// Likeness is the one name that stands for all that are alike: in lower case, with -.
func Likeness(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r == '_' || 'A' <= r && r <= 'Z' }) < 0 {
		return name
	}
	likeness := []byte(name)
	for i, c := range likeness {
		likeness[i] = variable(c)
	}
	return string(likeness)
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
