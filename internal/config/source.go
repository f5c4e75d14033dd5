package config

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"sluice/internal/model"
)

// source is a document that is parsed and may be pointed into.
type source struct {
	Document
	order int
	text  string
	root  *yaml.Node // nil: the document says nothing
	lines []int      // offsets of line starts; filled by the first problem
	known *secrets   // filled by the first problem, too

	// shifted: what was parsed is not text, but was made of it, so that columns
	// are not those of text.
	shifted bool
	// listed: it is no document but a file of keys, or of people.
	listed bool
}

// place is a node of a document; node may be nil for the document as a whole.
type place struct {
	src  *source
	node *yaml.Node
}

// longLine is the length in bytes of a line that is too long to be shown: JSON
// without line breaks.
const longLine = 4096

// line returns a line of the document, from 1, without its break.
func (s *source) line(number int) string {
	if s.lines == nil {
		s.lines = []int{0}
		for i := 0; i < len(s.text); i++ {
			if n := lineBreak(s.text[i:]); n > 0 {
				i += n - 1
				s.lines = append(s.lines, i+1)
			}
		}
	}
	if number < 1 || number > len(s.lines) {
		return ""
	}
	rest := s.text[s.lines[number-1]:]
	if number < len(s.lines) {
		rest = rest[:s.lines[number]-s.lines[number-1]]
	}
	return strings.TrimRight(rest, "\r\n\u0085\u2028\u2029")
}

// lineBreak returns the length of the line break that text begins with, as YAML
// 1.1 counts lines: CR, LF, CRLF, NEL, LS and PS.
func lineBreak(text string) int {
	switch {
	case text[0] == '\n':
		return 1
	case text[0] == '\r':
		if len(text) > 1 && text[1] == '\n' {
			return 2
		}
		return 1
	case text[0] < utf8.RuneSelf:
		return 0
	case strings.HasPrefix(text, "\u0085"), strings.HasPrefix(text, "\u2028"), strings.HasPrefix(text, "\u2029"):
		return len("\u0085") + len(text[:1])*boolInt(text[0] == 0xe2)
	}
	return 0
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p place) position() model.Position {
	position := model.Position{}
	if p.src != nil {
		position.File = p.src.Name
	}
	if p.node != nil {
		position.Line, position.Col = p.node.Line, p.node.Column
	}
	return position
}

// collector gathers the problems of a document set.
type collector struct {
	problems []placed
	seen     map[model.Problem]bool
	faults   int // those that are more than warnings, repeated ones too
	names    map[told]bool
	hints    int // comparisons of names left
}

// told is a name at a place that a problem was already told of.
type told struct {
	place
	name string
}

// told tells whether a name at a place was asked about before.
func (c *collector) told(where place, name string) bool {
	if c.names[told{where, name}] {
		return true
	}
	if c.names == nil {
		c.names = map[told]bool{}
	}
	c.names[told{where, name}] = true
	return false
}

type placed struct {
	model.Problem
	src   *source // nil: of no document
	order int
}

// The most that is told of one document set, and the most that is spent on
// looking for similar names: nobody reads more, and no document may hang.
const (
	mostProblems = 1000
	mostHints    = 200_000
)

func newCollector() *collector {
	return &collector{seen: map[model.Problem]bool{}, hints: mostHints}
}

func (c *collector) add(p place, message, hint string) {
	c.faults++
	c.put(p, model.Problem{Position: p.position(), Message: message, Hint: hint})
}

func (c *collector) warn(p place, message, hint string) {
	c.put(p, model.Problem{Position: p.position(), Message: message, Hint: hint, Warning: true})
}

func (c *collector) put(p place, problem model.Problem) {
	if c.seen[problem] || len(c.problems) > mostProblems {
		return
	}
	c.seen[problem] = true
	order := 0
	if p.src != nil {
		order = p.src.order
		if line := p.src.line(problem.Line); len(line) <= longLine {
			problem.Source = line
		}
	}
	c.problems = append(c.problems, placed{problem, p.src, order})
}

// sorted returns the problems in the order of their positions.
func (c *collector) sorted() []model.Problem {
	slices.SortStableFunc(c.problems, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	var problems []model.Problem
	for _, p := range c.problems {
		if p.src != nil {
			p.src.redact(&p.Problem)
		}
		problems = append(problems, p.Problem)
	}
	if len(problems) > mostProblems {
		problems = append(problems[:mostProblems], model.Problem{Position: model.Position{File: problems[0].File}, Message: "there are more problems than are shown"})
	}
	return problems
}
