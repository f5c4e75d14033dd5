package config

import (
	"regexp"
	"strconv"
	"strings"

	"sluice/internal/model"
)

const redacted = "REDACTED"

// Redact returns a document's text with its secrets struck out: scalars under
// keys such as token, password or Authorization, but not what they take from a
// variable or a file, which is not in the document anyway. A document whose
// secrets cannot be told from the rest is struck out whole.
func Redact(d Document) []byte {
	src, ok := parse(d, 0, newCollector())
	if !ok {
		return []byte(redacted + "\n")
	}
	known := src.secrets()
	if len(known.nodes) == 0 {
		return d.Data
	}
	mark := d.Data[:len(d.Data)-len(src.text)]
	d.Data = []byte(string(mark) + known.strike(src.text, 0))
	again, ok := parse(d, 0, newCollector())
	if known.unsure || !ok || len(again.secrets().nodes) > 0 {
		return []byte(redacted + "\n")
	}
	return d.Data
}

// strike returns a part of the document that begins at an offset, without what
// of secrets is in it.
func (k *secrets) strike(part string, offset int) string {
	var out strings.Builder
	at := 0
	for _, s := range k.spans {
		start, end := s.start-offset, s.end-offset
		if end <= at || start >= len(part) {
			continue
		}
		out.WriteString(k.values.Replace(part[at:max(at, start)]))
		out.WriteString(redacted)
		at = min(end, len(part))
	}
	out.WriteString(k.values.Replace(part[at:]))
	return out.String()
}

// redact gives a problem of this document its line without secrets, and takes
// what of them its message says.
func (s *source) redact(p *model.Problem) {
	if s.root == nil { // it could not be parsed: the line may be a secret's, or the one after its key
		if !namesSecret(s.line(p.Line-1) + "\n" + p.Source) {
			p.Redacted = p.Source
		}
		return
	}
	known := s.secrets()
	if len(known.nodes) == 0 {
		p.Redacted = p.Source
		return
	}
	p.Message, p.Hint = known.values.Replace(p.Message), known.values.Replace(p.Hint)
	if n := known.nodes[[2]int{p.Line, p.Col}]; n != nil {
		p.Message, p.Hint = strikeParts(p.Message, n.Value), strikeParts(p.Hint, n.Value)
	}
	if p.Source != "" && !known.unsure {
		s.line(p.Line) // fills in where lines begin
		p.Redacted = known.strike(p.Source, s.lines[p.Line-1])
	}
}

// quotes finds what a message quotes.
var quotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// strikeParts takes a value, and the parts of it that are quoted, out of a message.
func strikeParts(message, value string) string {
	message = quotes.ReplaceAllStringFunc(message, func(quote string) string {
		part, err := strconv.Unquote(quote)
		part = strings.TrimSuffix(part, "…") // as short does
		if err != nil || part == "" || !strings.Contains(value, part) {
			return quote
		}
		return strconv.Quote(redacted)
	})
	if natureOf(value) == isText {
		return message // it is quoted, if it is there, or replaced as a long one
	}
	return regexp.MustCompile(`\b`+regexp.QuoteMeta(value)+`\b`).ReplaceAllLiteralString(message, redacted)
}
