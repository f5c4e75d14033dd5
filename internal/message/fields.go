package message

import (
	"iter"
	"slices"
	"strings"
)

// Field is one field line (RFC 9110 5): a name as it was spelled, a value
// without surrounding white space, and the name's small integer, by which those
// are found that have one. Who makes a Field by itself sets that, to what Lookup
// says; Add and Set do so.
type Field struct {
	Name  string
	Value string
	ID    Name
}

// Fields is an ordered list of field lines. Names keep the spelling and lines
// the order in which they came; look-ups ignore case. The zero value is empty
// and ready for use. A Fields belongs to its message and is not safe for
// concurrent use.
type Fields []Field

// SameName tells whether two names of fields are one. Most are not even as long as each
// other, which is told without a call.
func SameName(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

// Get returns the value of the first line with a well-known name, or "".
func (f Fields) Get(id Name) string {
	for i := range f {
		if f[i].ID == id {
			return f[i].Value
		}
	}
	return ""
}

// Has tells whether a line with a well-known name is there.
func (f Fields) Has(id Name) bool {
	for i := range f {
		if f[i].ID == id {
			return true
		}
	}
	return false
}

// Find returns the value of the first line with a name, ignoring case, and
// whether there is one.
func (f Fields) Find(name string) (string, bool) {
	for i := range f {
		if SameName(f[i].Name, name) {
			return f[i].Value, true
		}
	}
	return "", false
}

// Values yields the value of every line with a name, in order.
func (f Fields) Values(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range f {
			if SameName(f[i].Name, name) && !yield(f[i].Value) {
				return
			}
		}
	}
}

// List yields the members of a comma-separated list field (RFC 9110 5.6.1)
// over all its lines, trimmed; empty members are left out. It does not know
// quoted strings: use it for lists of tokens only.
func (f Fields) List(id Name) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range f {
			if f[i].ID != id {
				continue
			}
			for member := range strings.SplitSeq(f[i].Value, ",") {
				member = strings.Trim(member, " \t")
				if member != "" && !yield(member) {
					return
				}
			}
		}
	}
}

// HasToken tells whether a list field holds a token, ignoring case.
func (f Fields) HasToken(id Name, token string) bool {
	for member := range f.List(id) {
		if strings.EqualFold(member, token) {
			return true
		}
	}
	return false
}

// Add appends a line.
func (f *Fields) Add(name, value string) {
	*f = append(*f, Field{Name: name, Value: value, ID: Lookup(name)})
}

// Set gives a name one value: the first line with the name keeps its place,
// further ones are removed; without one a line is appended.
func (f *Fields) Set(name, value string) {
	for i := range *f {
		if SameName((*f)[i].Name, name) {
			(*f)[i].Value = value
			rest := slices.DeleteFunc((*f)[i+1:], func(l Field) bool { return SameName(l.Name, name) })
			*f = (*f)[:i+1+len(rest)]
			return
		}
	}
	f.Add(name, value)
}

// Put is Set for a well-known name, in its usual spelling.
func (f *Fields) Put(id Name, value string) { f.Set(id.String(), value) }

// Delete removes every line with a name, ignoring case.
func (f *Fields) Delete(name string) {
	*f = slices.DeleteFunc(*f, func(l Field) bool { return SameName(l.Name, name) })
}

// DeleteFunc removes every line for which drop is true.
func (f *Fields) DeleteFunc(drop func(Field) bool) { *f = slices.DeleteFunc(*f, drop) }

// Clone returns a copy that shares no line with f.
func (f Fields) Clone() Fields { return slices.Clone(f) }

// Cookie returns the value of the first cookie with a name (RFC 6265 4.2),
// whose names are case-sensitive, and whether there is one.
func (f Fields) Cookie(name string) (string, bool) {
	for value := range f.Cookies(name) {
		return value, true
	}
	return "", false
}

// Cookies yields the value of every cookie with a name, in order. White space around a
// value does not count (RFC 6265 5.2), nor does it for most endpoints: a client cannot make
// many values of one.
func (f Fields) Cookies(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range f {
			if f[i].ID != Cookie {
				continue
			}
			for pair := range strings.SplitSeq(f[i].Value, ";") {
				key, value, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
				if ok && key == name && !yield(unquote(strings.TrimLeft(value, " \t"))) {
					return
				}
			}
		}
	}
}

// unquote drops the quotes that a cookie's value may stand in.
func unquote(value string) string {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}
