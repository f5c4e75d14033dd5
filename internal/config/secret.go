package config

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"sluice/internal/model"
)

// secretNames are the keys, in lower case, whose values nobody is to read in a
// document; so are those that contain one of secretParts.
var (
	secretNames = []string{"token", "hash", "private_key", "authorization", "proxy-authorization", "cookie", "set-cookie"}
	secretParts = []string{"api-key", "api_key", "apikey", "-token", "_token", "secret", "password"}
)

// isSecretName tells whether a value under a key is a secret. Case does not
// count: many keys are names of header fields.
func isSecretName(key string) bool {
	key = strings.ToLower(key)
	return slices.Contains(secretNames, key) || slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(key, part) })
}

// meansSecret tells whether a key is the name of a secret, or was to be: what is
// misspelled is told of, with its line.
func meansSecret(key string) bool {
	return isSecretName(key) || misspells(key, "hash", "privatekey", "authorization", "apikey") ||
		slices.ContainsFunc(wordForm.FindAllString(key, -1), func(word string) bool { return misspells(word, "secret", "password", "token") })
}

// wordForm is that of what stands between - and _.
var wordForm = regexp.MustCompile(`[0-9A-Za-z]+`)

// misspells tells whether a name is nearly one of others, in lower case.
func misspells(name string, others ...string) bool {
	plain := plainName(name)
	return slices.ContainsFunc(others, func(other string) bool {
		most := 1 + boolInt(len(other) >= len("password"))
		difference := len(plain) - len(other)
		return -most <= difference && difference <= most && distance(plain, other) <= most
	})
}

// namesSecret finds where in a text the first name ends that might be the key of
// a secret; -1: nowhere.
func namesSecret(text string) int {
	for _, at := range nameForm.FindAllStringIndex(text, -1) {
		switch name := text[at[0]:at[1]]; strings.ToLower(name) {
		case "key", "keys", "users":
			return at[1]
		default:
			if meansSecret(name) {
				return at[1]
			}
		}
	}
	return -1
}

// nameForm is that of keys, and of more.
var nameForm = regexp.MustCompile(`[0-9A-Za-z_-]+`)

// userInfo finds that of a URL, also where it keeps the URL from being one: a
// password with a slash in it. In JSON, slashes may be escaped.
var userInfo = regexp.MustCompile(`:\\?/\\?/([^\s"'/\\?#@]*|[^\s"'/\\?#@:\[]*:[0-9]*[^\s"'0-9/\\@][^\s"'@]*)@`)

// userInfos are those of a text that are secret.
func userInfos(text string) (found []span) {
	for _, at := range userInfo.FindAllStringSubmatchIndex(text, -1) {
		if info := text[at[2]:at[3]]; !isPublic(strings.ReplaceAll(info, ":", " ")) {
			found = append(found, span{at[2], at[3]})
		}
	}
	return found
}

// isPublic tells whether nothing of a secret's value stands in the document: it
// is empty, or comes from a variable or a file without a default, or from the
// request, after the name of a scheme at most.
func isPublic(value string) bool {
	for {
		start, end, ok := reference(value)
		if !ok {
			break
		}
		value = value[:start] + value[end:]
	}
	switch value = strings.TrimSpace(value); strings.ToLower(value) {
	case "", "basic", "bearer", "digest":
		return true
	}
	return value == redacted
}

// reference finds the first ${…} without a default, or placeholder for a part
// of the request, of a text.
func reference(text string) (start, end int, ok bool) {
	for start = range len(text) {
		if text[start] != '{' {
			continue
		}
		length := strings.IndexAny(text[start+1:], "{}")
		if length < 0 || text[start+1+length] != '}' {
			continue
		}
		inner := text[start+1 : start+1+length]
		variable := start > 0 && text[start-1] == '$'
		_, fallback, _ := strings.Cut(inner, ":-")
		switch {
		case variable && (strings.HasPrefix(inner, "file:") || fallback == ""):
			return start - 1, start + length + 2, true
		case !variable:
			if part, f := placeholder(inner); f == nil && part.Source != model.FromParam {
				return start, start + length + 2, true
			}
		}
	}
	return 0, 0, false
}

// secrets are those of one document.
type secrets struct {
	nodes  map[[2]int]*yaml.Node // by line and column
	spans  []span                // where they stand in the text, in order
	values *strings.Replacer     // strikes out the longer ones wherever they are repeated
	masks  *strings.Replacer     // the same, with a * for each character
	// unsure: not all could be found in the text.
	unsure bool
}

// secrets looks the secrets of a document up, once.
func (s *source) secrets() *secrets {
	if s.known != nil {
		return s.known
	}
	s.known = &secrets{nodes: map[[2]int]*yaml.Node{}, unsure: s.shifted}
	w := secretWalk{found: s.known, seen: map[secretVisit]bool{}}
	start := public
	switch {
	case !s.listed || s.root == nil:
	case s.root.Kind == yaml.ScalarNode: // the key itself
		start = secret
	default:
		start = keyed
	}
	w.walk(s.root, start)
	var values []string
	for _, n := range s.known.nodes {
		if at, ok := s.scalarAt(n); ok {
			s.known.spans = append(s.known.spans, at)
		} else {
			s.known.unsure = true
		}
		for line := range strings.SplitSeq(n.Value, "\n") {
			if len(line) >= telling && !isSecretName(line) {
				values = append(values, line)
			}
		}
	}
	s.known.spans = append(s.known.spans, userInfos(s.text)...)
	slices.SortFunc(s.known.spans, func(a, b span) int { return a.start - b.start })
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // of two, the one that has the other in it
	var pairs, masks []string
	for _, value := range slices.Compact(values) {
		pairs, masks = append(pairs, value, redacted), append(masks, value, masked(value))
	}
	s.known.values, s.known.masks = strings.NewReplacer(pairs...), strings.NewReplacer(masks...)
	return s.known
}

// telling is the length of a value that is not found in a document by chance.
const telling = 8

// secretWalk goes through a document for secrets.
type secretWalk struct {
	found *secrets
	seen  map[secretVisit]bool
}

type secretVisit struct {
	node *yaml.Node
	kind secrecy
}

// secrecy is what is known of a node by the way to it.
type secrecy int

const (
	public secrecy = iota
	secret         // the value of a secret's key
	keyed          // the value of keys, or what is in that: what api_key knows of clients' keys
	people         // the value of users, who have hashes
)

// walk looks at a node.
func (w *secretWalk) walk(n *yaml.Node, kind secrecy) {
	if n == nil {
		return
	}
	if n.Anchor != "" || n.Kind == yaml.AliasNode { // it may be reached by several ways, or by itself
		if w.seen[secretVisit{n, kind}] {
			return
		}
		w.seen[secretVisit{n, kind}] = true
	}
	switch n.Kind {
	case yaml.AliasNode:
		w.walk(n.Alias, kind)
	case yaml.ScalarNode:
		if kind == secret && !isPublic(n.Value) {
			w.found.nodes[[2]int{n.Line, n.Column}] = n
		}
	case yaml.SequenceNode, yaml.DocumentNode:
		for _, item := range n.Content {
			if n.Kind == yaml.SequenceNode && item.Kind == yaml.ScalarNode && (kind == keyed || kind == people) {
				w.walk(item, secret) // no mapping, by mistake: the key itself, or name:hash
				continue
			}
			w.walk(item, kind)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind == yaml.AliasNode && key.Alias != nil {
				key = key.Alias
			}
			w.walk(n.Content[i+1], secrecyOf(key.Value, kind))
		}
	}
}

// secrecyOf is that of the value of a key, in a mapping of another.
func secrecyOf(key string, within secrecy) secrecy {
	switch {
	case meansSecret(key),
		within == secret && key == "regex",       // of a condition: what the secret must be
		within == keyed && misspells(key, "key"): // a digest, or by mistake the key itself
		return secret
	case key == "keys":
		return keyed
	case key == "users":
		return people
	}
	return public
}

// scalarAt finds the text of a scalar in the document, without its quotes.
func (s *source) scalarAt(n *yaml.Node) (span, bool) {
	line := s.line(n.Line)
	if n.Line < 1 || n.Line > len(s.lines) {
		return span{}, false
	}
	at := s.lines[n.Line-1]
	for column := 1; column < n.Column; column++ {
		_, size := utf8.DecodeRuneInString(line)
		if size == 0 {
			return span{}, false
		}
		line, at = line[size:], at+size
	}
	for at < len(s.text) && (s.text[at] == '&' || s.text[at] == '!') { // properties stand before
		at += max(1, strings.IndexAny(s.text[at:], " \t\r\n"))
		at += len(s.text[at:]) - len(strings.TrimLeft(s.text[at:], " \t\r\n"))
	}
	if at >= len(s.text) {
		return span{}, false
	}
	switch c := s.text[at]; {
	case n.Style&yaml.DoubleQuotedStyle != 0 && c == '"', n.Style&yaml.SingleQuotedStyle != 0 && c == '\'':
		end := quoted(s.text, at)
		for c == '\'' && end < len(s.text) && s.text[end] == '\'' { // '' is a quote within
			end = quoted(s.text, end)
		}
		return span{at + 1, end - 1}, end-1 > at
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 && (c == '|' || c == '>'):
		return span{at, blockEnd(s.text, at)}, true
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0:
		length, ok := plainLength(s.text[at:], n.Value)
		return span{at, at + length}, ok
	}
	return span{}, false
}

// plainLength is how much of a text a plain scalar takes: as its value, but
// that it may go over several lines.
func plainLength(text, value string) (int, bool) {
	at := 0
	for value != "" {
		if c := value[0]; c == ' ' || c == '\n' {
			rest := strings.TrimLeft(text[at:], " \t\r\n")
			if len(rest) == len(text[at:]) {
				return 0, false
			}
			at, value = len(text)-len(rest), strings.TrimLeft(value, " \n")
			continue
		}
		if at == len(text) || text[at] != value[0] {
			return 0, false
		}
		at, value = at+1, value[1:]
	}
	return at, true
}

// blockEnd is where the block scalar ends that begins at a | or >: after the
// last line that stands as deep as its first.
func blockEnd(text string, at int) int {
	end, start, depth := at, at, -1
	for line := range strings.Lines(text[at:]) {
		bare := strings.TrimRight(line, " \t\r\n")
		indent := len(bare) - len(strings.TrimLeft(bare, " "))
		switch {
		case start == at: // the line of the indicator
		case bare == "":
			start += len(line)
			continue
		case depth < 0:
			depth = indent
		case indent < depth:
			return end
		}
		end = start + len(bare)
		start += len(line)
	}
	return end
}
