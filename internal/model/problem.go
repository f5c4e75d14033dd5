package model

import "fmt"

// Position is a place in a document.
type Position struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1; 0: the document as a whole
	Col  int    `json:"col"`  // in characters, from 1
}

// String is FILE:LINE:COL.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Problem is a fault found in a document: where, what, how to mend.
type Problem struct {
	Position
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`    // how to mend; a sentence or empty
	Source  string `json:"-"`                 // the line of the document, with a * for each character of secrets
	Warning bool   `json:"warning,omitempty"` // told, but nothing is refused for it
	// Redacted is the line with a word in the place of each secret; empty where
	// they cannot be told from the rest.
	Redacted string `json:"source,omitempty"`
}

// Error is the problem on one line.
func (p Problem) Error() string {
	text := p.Position.String() + ": " + p.Message
	if p.Warning {
		text = p.Position.String() + ": warning: " + p.Message
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// Refused tells whether any of the problems is more than a warning.
func Refused(problems []Problem) bool {
	for _, p := range problems {
		if !p.Warning {
			return true
		}
	}
	return false
}

// Report records a problem with one option of a middleware. path names the
// option below the kind's own, as deny[0] or request.set.X-A; "" is the whole.
type Report func(path, message, hint string)
