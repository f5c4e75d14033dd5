package config

import "regexp"

// TextOrRegex is what a text must be: a text, or {regex: …} that matches the whole of
// it. Exactly one of the two is set, or a problem is reported.
type TextOrRegex struct {
	located
	Text  string
	Regex *WholeRegex `config:"regex" doc:"a regular expression (RE2) that the whole of it matches"`
}

func (*TextOrRegex) want() string { return "a text or {regex: …}" }

func (t *TextOrRegex) setText(s scalar) *fault {
	switch {
	case !s.loose && s.nature() != isText:
		return unwanted("put it into quotes: \"" + s.s + "\"")
	case s.s == "":
		return faulty("is empty", "")
	}
	t.Text = s.s
	return nil
}

// WholeRegex is a regular expression (RE2) for the whole of a text.
type WholeRegex struct{ *regexp.Regexp }

func (*WholeRegex) want() string { return "a regular expression" }

func (v *WholeRegex) set(s scalar) *fault {
	if _, f := compile(s.s); f != nil { // alone: what is around it must not make it one
		return f
	}
	whole, f := compile("^(?:" + s.s + ")$")
	v.Regexp = whole
	return f
}
