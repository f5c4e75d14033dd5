package message

import "strings"

// Joined returns what all lines say whose name is one of those meant, as one line would say
// it, and whether there is any (RFC 9110 5.3). Between two is a comma, with whatever space
// the caller's readers are used to, and between cookies "; " (RFC 9113 8.2.3).
func (f Fields) Joined(comma string, is func(name string) bool) (value string, there bool) {
	var all *strings.Builder // of several lines: to add one to a text would copy it each time
	for i := range f {
		line := &f[i]
		switch {
		case !is(line.Name):
		case there:
			all = line.after(all, value, comma)
		default:
			value, there = line.trimmed(), true
		}
	}
	if all != nil {
		value = all.String()
	}
	return value, there
}

// Map returns what the lines say by their names, as Joined has it. The keys are made of the
// lines; a line without one is left out.
func (f Fields) Map(comma string, key func(line *Field) string) map[string]string {
	all := make(map[string]string, len(f))
	var several map[string]*strings.Builder
	for i := range f {
		line := &f[i]
		name := key(line)
		if name == "" {
			continue
		}
		first, there := all[name]
		if !there {
			all[name] = line.trimmed()
			continue
		}
		if several == nil {
			several = map[string]*strings.Builder{}
		}
		several[name] = line.after(several[name], first, comma)
	}
	for name, lines := range several {
		all[name] = lines.String()
	}
	return all
}

// after adds what a line says to what those before it do: the first one, as long as they are
// nil.
func (f *Field) after(before *strings.Builder, first, comma string) *strings.Builder {
	if before == nil {
		before = &strings.Builder{}
		before.WriteString(first)
	}
	if f.ID == Cookie {
		comma = "; "
	}
	before.WriteString(comma)
	before.WriteString(f.trimmed())
	return before
}

func (f *Field) trimmed() string { return strings.Trim(f.Value, " \t") }
