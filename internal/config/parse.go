package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parse reads a document's YAML into nodes. It reports what keeps it from doing
// so and returns false then.
func parse(document Document, order int, out *collector) (*source, bool) {
	src := &source{Document: document, order: order}
	data := document.Data
	switch {
	case len(data) > LargestDocument:
		out.add(place{src: src}, fmt.Sprintf("the document is larger than %d MiB", LargestDocument>>20), "split it with include")
		return src, false
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		out.add(place{src: src}, "the document is UTF-16", "save it as UTF-8")
		return src, false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	src.text = string(data)
	if at, message := badCharacter(src.text); message != "" {
		out.add(src.at(at), message, "")
		return src, false
	}
	text := src.text
	if first := strings.TrimLeft(text, " \t\r\n"); strings.HasPrefix(first, "{") || strings.HasPrefix(first, "[") {
		text = fromJSON(text)
		src.shifted = len(text) != len(src.text)
	}
	root, second, err := nodes(strings.NewReader(text))
	switch {
	case err != nil:
		e := explain(err)
		out.add(src.at(e.place(text, whereFails(text))), "this is not valid YAML: "+e.message, e.hint)
		return src, false
	case second != nil:
		out.add(place{src, second}, "a file holds one YAML document, and here a second one begins", "remove the --- above, or put this part into a file of its own and include it")
		return src, false
	}
	src.root = root
	return src, true
}

// at is a place at an offset of the text.
func (s *source) at(offset int) place {
	offset = min(offset, len(s.text))
	node := &yaml.Node{Line: 1}
	start := 0
	for i := 0; i < offset; i++ {
		if n := lineBreak(s.text[i:]); n > 0 && i+n <= offset {
			i += n - 1
			start = i + 1
			node.Line++
		}
	}
	node.Column = utf8.RuneCountInString(s.text[start:offset]) + 1
	return place{s, node}
}

// nodes returns the content of the first document of a YAML stream, and the
// beginning of a second one.
func nodes(r io.Reader) (root, second *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on input that it did not think of
			err = fmt.Errorf("%v", r)
		}
	}()
	decoder := yaml.NewDecoder(r)
	var first, next yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, nil, err
	default:
		return nil, &next, nil
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 {
		return nil, nil, errors.New("yaml: no content")
	}
	return first.Content[0], nil, nil
}

// badCharacter finds the first character that no YAML document may have.
func badCharacter(text string) (at int, message string) {
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c < ' ' && c != '\t' && c != '\n' && c != '\r', c == 0x7f:
			return i, fmt.Sprintf("the document has a control character (0x%02X)", c)
		case c < utf8.RuneSelf:
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return i, "the document is not UTF-8"
		case 0x80 <= r && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			return i, fmt.Sprintf("the document has a control character (U+%04X)", r)
		}
		i += size
	}
	return 0, ""
}

// fromJSON makes of JSON what the YAML library takes: tabs between tokens become
// spaces, one for one, an escaped slash a slash, and surrogate pairs in escapes
// one character. A quote inside an unquoted YAML text is none, so a single quote
// counts only where a value may begin.
func fromJSON(text string) string {
	if !strings.Contains(text, "\t") && !strings.Contains(text, `\u`) && !strings.Contains(text, `\/`) {
		return text
	}
	out := make([]byte, 0, len(text))
	begins := true // a value may begin here
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"', c == '\'' && begins:
			end := quoted(text, i)
			out = append(out, unescapeSlashes(text[i:end])...)
			i, begins = end, false
			continue
		case c == '#' && i > 0 && (text[i-1] == ' ' || text[i-1] == '\n'):
			end := i + max(1, strings.IndexByte(text[i:], '\n'))
			out = append(out, text[i:end]...)
			i = end
			continue
		case c == '\t':
			c = ' '
		case c != ' ' && c != '\n' && c != '\r':
			begins = c == '{' || c == '[' || c == ',' || c == ':'
		}
		out = append(out, c)
		i++
	}
	return surrogates.ReplaceAllStringFunc(string(out), func(pair string) string {
		var s string
		if err := json.Unmarshal([]byte(`"`+pair+`"`), &s); err != nil || utf8.RuneCountInString(s) != 1 {
			return pair
		}
		return s
	})
}

// quoted returns the index after the quoted text that begins at start.
func quoted(text string, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[start] == '"':
			i++
		case text[i] == text[start]:
			return i + 1
		}
	}
	return len(text)
}

// unescapeSlashes makes \/ a slash in a text in double quotes.
func unescapeSlashes(text string) string {
	if text[0] != '"' || !strings.Contains(text, `\/`) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			if text[i+1] != '/' {
				out = append(out, text[i])
			}
			i++
		}
		out = append(out, text[i])
	}
	return string(out)
}

var surrogates = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)

// slowly gives a text away byte by byte, so that what was taken of it tells how
// far a reader has come.
type slowly struct {
	text string
	at   int
}

func (s *slowly) Read(p []byte) (int, error) {
	if s.at >= len(s.text) {
		return 0, io.EOF
	}
	n := copy(p, s.text[s.at:s.at+1])
	s.at += n
	return n, nil
}

// whereFails returns the offset at which the library gives a text up. Its errors
// name a line at best, and often that of the block's beginning.
func whereFails(text string) int {
	r := &slowly{text: text}
	if _, _, err := nodes(r); err == nil {
		return 0
	}
	at := min(r.at, len(text))
	taken := strings.TrimRight(text[:at], " \t\r\n")
	if taken == "" {
		return 0
	}
	_, size := utf8.DecodeLastRuneInString(taken)
	return len(taken) - size
}

var libraryPrefix = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// explanation says what an error of the library means, and where its cause
// stands: the library looks a few characters ahead.
type explanation struct {
	says, message, hint string
	cause               cause
}

// cause is where the cause of an error stands, seen from where the library
// gives up.
type cause int

const (
	atCharacter cause = iota
	atLine            // the first character of the line
	atStray           // the character that begins no value, just before
	atBefore          // the end of the line before, where a line has only begun
)

func explain(err error) explanation {
	text := libraryPrefix.ReplaceAllString(err.Error(), "")
	for _, known := range explanations {
		if strings.Contains(text, known.says) {
			return known
		}
	}
	return explanation{message: text}
}

// place moves from where the library gave text up to the cause.
func (e explanation) place(text string, at int) int {
	switch e.cause {
	case atLine:
		start := strings.LastIndexAny(text[:at], "\r\n") + 1
		for start < at && (text[start] == ' ' || text[start] == '\t') {
			start++
		}
		return start
	case atStray:
		for i := max(0, at-ahead); i <= at && i < len(text); i++ {
			if strings.IndexByte("@`%\t", text[i]) >= 0 {
				return i
			}
		}
	case atBefore:
		start := strings.LastIndexAny(text[:at], "\r\n") + 1
		if before := strings.TrimRight(text[:start], " \t\r\n"); at-start < ahead && before != "" {
			_, size := utf8.DecodeLastRuneInString(before)
			return len(before) - size
		}
	case atCharacter:
	}
	return at
}

// ahead is how many characters the library looks ahead.
const ahead = 4

var explanations = []explanation{
	{"mapping values are not allowed", "a key with a colon does not fit here", "mend the indentation, or quote a text that has a colon followed by a space", atCharacter},
	{"did not find expected ',' or ']'", "a list that was opened with [ is not closed with ], or lacks a comma", "a text with brackets or braces, ${…} too, needs quotes here", atBefore},
	{"did not find expected ',' or '}'", "a mapping that was opened with { is not closed with }, or lacks a comma", "a text with brackets or braces, ${…} too, needs quotes here", atBefore},
	{"found a tab character", "a tab cannot indent", "use spaces", atStray},
	{"found character that cannot start any token", "no value can begin with this character", "use spaces, not tabs, to indent; quote a text that begins with @, ` or %", atStray},
	{"did not find expected key", "no key can stand here", "mend the indentation, or close the quotes and brackets above", atLine},
	{"did not find expected '-' indicator", "an item of the list above, or the end of it, should be here", "mend the indentation", atLine},
	{"found unexpected end of stream", "a quoted text is not closed", "", atCharacter},
	{"could not find expected ':'", "a key has no colon", "write key: value", atLine},
	{"did not find expected <document start>", "there is something after the end of the document", "remove it", atCharacter},
	{"did not find expected node content", "a value is missing here, or a bracket is not closed", "", atCharacter},
	{"unknown anchor", "an alias (*) names an anchor (&) that is not defined above it", "", atCharacter},
	{"exceeded max depth", "it is nested too deep", "", atCharacter},
	{"found unknown escape character", "a text in double quotes has an unknown escape", `write \\ for a backslash, or use single quotes`, atCharacter},
}
