package config

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

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
	if known.none() {
		return d.Data
	}
	mark := d.Data[:len(d.Data)-len(src.text)]
	d.Data = []byte(string(mark) + known.strike(src.text, 0, known.values, word))
	again, ok := parse(d, 0, newCollector())
	if known.unsure || !ok || len(again.secrets().nodes) > 0 {
		return []byte(redacted + "\n")
	}
	return d.Data
}

// none tells whether there are no secrets at all.
func (k *secrets) none() bool { return len(k.nodes) == 0 && len(k.spans) == 0 }

// strike returns a part of the document that begins at an offset, without what
// of secrets is in it: something else stands in the place of each, and others
// strikes out what is repeated.
func (k *secrets) strike(part string, offset int, others *strings.Replacer, instead func(secret string) string) string {
	var out strings.Builder
	at := 0
	for _, s := range k.spans {
		start, end := s.start-offset, s.end-offset
		if end <= at || start >= len(part) {
			continue
		}
		start, end = max(at, start), min(end, len(part))
		out.WriteString(others.Replace(part[at:start]))
		out.WriteString(instead(part[start:end]))
		at = end
	}
	out.WriteString(others.Replace(part[at:]))
	return out.String()
}

// word stands in the place of a secret; masked has a * for each of its
// characters, so that the column of what comes after it remains.
func word(string) string { return redacted }

func masked(secret string) string { return strings.Repeat("*", utf8.RuneCountInString(secret)) }

// redact takes what of secrets is in a problem of this document out of its
// message and its line, which a log or a terminal shows to more than those who
// may read the document.
func (s *source) redact(p *model.Problem) {
	p.Message, p.Hint = withoutUserInfo(p.Message, word), withoutUserInfo(p.Hint, word)
	line := s.line(p.Line)
	for _, at := range userInfos(line) { // a bad one is told of in parts
		info := line[at.start:at.end]
		p.Message, p.Hint = strikeParts(p.Message, info), strikeParts(p.Hint, info)
	}
	if s.root == nil { // it could not be parsed
		s.redactUnparsed(p)
		return
	}
	known := s.secrets()
	if known.none() {
		p.Redacted = p.Source
		return
	}
	p.Message, p.Hint = known.values.Replace(p.Message), known.values.Replace(p.Hint)
	if n := known.nodes[[2]int{p.Line, p.Col}]; n != nil {
		p.Message, p.Hint = strikeParts(p.Message, n.Value), strikeParts(p.Hint, n.Value)
	}
	if p.Source == "" {
		return
	}
	if known.unsure {
		p.Source = ""
		return
	}
	at := s.lines[p.Line-1]
	p.Source, p.Redacted = known.strike(p.Source, at, known.masks, masked), known.strike(p.Source, at, known.values, word)
}

// redactUnparsed hides what of a line may be a secret: what comes after the name
// of one, and all of it in a file of keys, or if such a name stands above it.
func (s *source) redactUnparsed(p *model.Problem) {
	at := namesSecret(p.Source)
	if s.listed || namesSecret(s.line(p.Line-1)) >= 0 || namesSecret(s.above(p.Line)) >= 0 {
		at = 0
	}
	if at < 0 {
		p.Source, p.Redacted = withoutUserInfo(p.Source, masked), withoutUserInfo(p.Source, word)
		return
	}
	p.Source = p.Source[:at] + visible.ReplaceAllStringFunc(p.Source[at:], masked)
}

// visible finds what is to be seen of a text.
var visible = regexp.MustCompile(`\S+`)

// above is the line that a line is below of, by its depth.
func (s *source) above(number int) string {
	depth, item := depthOf(s.line(number))
	for number--; number > 0; number-- {
		line := s.line(number)
		switch at, otherItem := depthOf(line); {
		case strings.TrimSpace(line) == "":
		case at < depth, at == depth && item && !otherItem:
			return line
		}
	}
	return ""
}

// depthOf is how deep a line stands, and whether it is an item of a list.
func depthOf(line string) (depth int, item bool) {
	bare := strings.TrimLeft(line, " \t")
	return len(line) - len(bare), strings.HasPrefix(bare, "-")
}

func withoutUserInfo(text string, instead func(string) string) string {
	found := secrets{spans: userInfos(text)}
	return found.strike(text, 0, strings.NewReplacer(), instead)
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
