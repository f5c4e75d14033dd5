package config

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar is a scalar node after substitution, not yet of any type.
type scalar struct {
	text
	// typed says that the text decides the type, as of a plain scalar: quotes
	// make it text, unless it came from a variable, which JSON can only quote.
	typed bool
	// loose says that text may look like a number: it is in quotes or comes
	// from a variable.
	loose bool
}

// nature is what a plain scalar is by the core schema of YAML 1.2 (10.3.2).
type nature int

const (
	isText nature = iota
	isNull
	isBool
	isInt
	isFloat
)

var (
	intForm   = regexp.MustCompile(`^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
	floatForm = regexp.MustCompile(`^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

func isNullText(s string) bool {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

func natureOf(s string) nature {
	if isNullText(s) {
		return isNull
	}
	switch s {
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return isBool
	}
	if c := s[0]; c != '.' && c != '-' && c != '+' && (c < '0' || c > '9') {
		return isText
	}
	switch {
	case intForm.MatchString(s):
		return isInt
	case floatForm.MatchString(s):
		return isFloat
	}
	return isText
}

func (s scalar) nature() nature {
	if !s.typed {
		return isText
	}
	return natureOf(s.s)
}

// boolean and integer return the value of a scalar of that nature.
func (s scalar) boolean() bool { return strings.EqualFold(s.s, "true") }

func (s scalar) integer() (int64, error) {
	switch {
	case strings.HasPrefix(s.s, "0o"):
		return strconv.ParseInt(s.s[2:], 8, 64)
	case strings.HasPrefix(s.s, "0x"):
		return strconv.ParseInt(s.s[2:], 16, 64)
	}
	return strconv.ParseInt(s.s, 10, 64)
}

// read returns the scalar of a node, with everything substituted.
func (d *decoder) read(n *yaml.Node) (scalar, *fault) {
	s := scalar{text: text{s: n.Value, written: n.Value, where: place{d.src, n}}}
	s.typed = n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	if n.Style&yaml.TaggedStyle != 0 {
		switch n.Tag {
		case "!!str":
			s.typed = false
		case "!!int", "!!float", "!!bool", "!!null":
			s.typed = true
		default:
			return s, unknownTag(n.Tag)
		}
	}
	s.loose = !s.typed
	if strings.Contains(n.Value, "${") {
		substitution := substitution{env: &d.env, dir: d.src.Dir, file: d.file}
		substitution.run(n.Value)
		if substitution.fault != nil {
			return s, substitution.fault
		}
		s.s, s.foreign = substitution.out.String(), substitution.spans
		s.typed, s.loose = true, true
	}
	return s, nil
}
