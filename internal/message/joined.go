package message

import "strings"

// Joined returns what all lines say whose name is one of those meant, as one line would say
// it, and whether there is any (RFC 9110 5.3). Between two is a comma, with whatever space
// the caller's readers are used to, and between cookies "; " (RFC 9113 8.2.3).
func (f Fields) Joined(comma string, is func(name string) bool) (value string, there bool) {
	for i := range f {
		line := &f[i]
		switch {
		case !is(line.Name):
		case there:
			value = line.after(value, comma)
		default:
			value, there = line.trimmed(), true
		}
	}
	return value, there
}

// Map returns what the lines say by their names, as Joined has it. The keys are made of the
// lines; a line without one is left out.
func (f Fields) Map(comma string, key func(line *Field) string) map[string]string {
	all := make(map[string]string, len(f))
	for i := range f {
		line := &f[i]
		name := key(line)
		if name == "" {
			continue
		}
		if before, there := all[name]; there {
			all[name] = line.after(before, comma)
		} else {
			all[name] = line.trimmed()
		}
	}
	return all
}

func (f *Field) after(before, comma string) string {
	if f.ID == Cookie {
		comma = "; "
	}
	return before + comma + f.trimmed()
}

func (f *Field) trimmed() string { return strings.Trim(f.Value, " \t") }
