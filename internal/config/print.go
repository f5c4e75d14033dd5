package config

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"sluice/internal/model"
)

// Print writes a problem for a person: where and what, how to mend, then the
// line of the document with a caret under the column.
func Print(w io.Writer, p model.Problem) {
	message := p.Message
	if p.Warning {
		message = "warning: " + message
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n", p.Position, message)
	if p.Hint != "" {
		fmt.Fprintf(&out, "  hint: %s\n", p.Hint)
	}
	if p.Line > 0 && strings.TrimSpace(p.Source) != "" {
		source, caret := window([]rune(p.Source), p.Col-1)
		fmt.Fprintf(&out, "    %s\n    %s^\n", source, caret)
	}
	_, _ = io.WriteString(w, out.String()) // nobody is left to tell
}

// The part of a long line that is shown: so many characters before and after
// the column.
const (
	shownBefore = 60
	shownAfter  = 40
)

// window returns what is shown of a line, and what puts a caret under column.
func window(line []rune, column int) (shown, caret string) {
	column = min(max(column, 0), len(line))
	start, end := 0, len(line)
	prefix, suffix := "", ""
	if len(line) > shownBefore+shownAfter {
		if column > shownBefore {
			start, prefix = column-shownBefore+1, "…"
		}
		if end > start+shownBefore+shownAfter {
			end, suffix = start+shownBefore+shownAfter, "…"
		}
	}
	var space strings.Builder
	space.WriteString(strings.Repeat(" ", len([]rune(prefix))))
	for _, r := range line[start:column] {
		switch {
		case r == '\t':
			space.WriteRune('\t') // as wide as above, whatever the terminal makes of it
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case wide(r):
			space.WriteString("  ")
		default:
			space.WriteByte(' ')
		}
	}
	return prefix + string(line[start:end]) + suffix, space.String()
}

// wide tells whether a terminal gives a character two columns (UAX 11).
func wide(r rune) bool {
	kind := width.LookupRune(r).Kind()
	return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
}
