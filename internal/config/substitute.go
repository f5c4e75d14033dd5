package config

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"sluice/internal/regularfile"
)

// text is the text of a scalar after substitution. It remembers what came from
// outside the document: there, braces are only text.
type text struct {
	s       string
	foreign []span // in order
	written string // as it stands in the document, for messages: secrets stay out of them
	where   place
}

type span struct{ start, end int }

// structural tells whether the byte at i was written in the document and may
// have a meaning there.
func (t text) structural(i int) bool {
	if len(t.foreign) == 0 {
		return true
	}
	n := t.after(i)
	return n == len(t.foreign) || i < t.foreign[n].start
}

// shown is the text for a message: as it was written where it has something from
// outside, which may be a secret.
func (t text) shown() string {
	if len(t.foreign) > 0 {
		return t.written
	}
	return t.s
}

// after returns the index of the first span that ends after i.
func (t text) after(i int) int {
	return sort.Search(len(t.foreign), func(n int) bool { return t.foreign[n].end > i })
}

func (t text) slice(start, end int) text {
	part := text{s: t.s[start:end], written: t.written, where: t.where}
	if len(t.foreign) == 0 {
		return part
	}
	for _, s := range t.foreign[t.after(start):] {
		if s.start >= end {
			break
		}
		part.foreign = append(part.foreign, span{max(s.start, start) - start, min(s.end, end) - start})
	}
	return part
}

// substitution is one walk over the text of a scalar.
type substitution struct {
	env   *Environment
	dir   string
	file  func(path string) // notes a file that is read
	out   strings.Builder
	spans []span
	depth int
	fault *fault
}

// deepest is how deep defaults may nest.
const deepest = 8

func (s *substitution) foreign(value string) {
	start := s.out.Len()
	s.out.WriteString(value)
	s.spans = append(s.spans, span{start, s.out.Len()})
}

// run puts in the variables and files that raw names.
func (s *substitution) run(raw string) {
	if s.depth++; s.depth > deepest {
		s.fault = faulty("defaults of variables are nested too deep", "")
	}
	pairs := braces(raw)
	closers := map[int]bool{} // of literal ${
	for i := 0; i < len(raw) && s.fault == nil; {
		switch {
		case strings.HasPrefix(raw[i:], "$${"):
			if end, ok := pairs[i+2]; ok {
				closers[end] = true
			}
			s.foreign("${")
			i += 3
		case strings.HasPrefix(raw[i:], "${"):
			end, ok := pairs[i+1]
			if !ok {
				s.fault = faulty(fmt.Sprintf("%s has a ${ that is not closed", short(raw)), "write $${ for a literal ${")
				return
			}
			s.put(raw[i+2 : end])
			i = end + 1
		case closers[i]:
			s.foreign("}")
			i++
		default:
			s.out.WriteByte(raw[i])
			i++
		}
	}
	s.depth--
}

// braces returns for every { of raw the index of the } that closes it; one that
// is not closed is left out.
func braces(raw string) map[int]int {
	pairs := map[int]int{}
	var open []int
	for i := range len(raw) {
		switch raw[i] {
		case '{':
			open = append(open, i)
		case '}':
			if len(open) > 0 {
				pairs[open[len(open)-1]] = i
				open = open[:len(open)-1]
			}
		}
	}
	return pairs
}

// put evaluates what stands between ${ and }.
func (s *substitution) put(expression string) {
	if path, ok := strings.CutPrefix(expression, "file:"); ok {
		s.putFile(path)
		return
	}
	name, fallback, hasDefault := strings.Cut(expression, ":-")
	if !variableName(name) {
		s.fault = faulty(fmt.Sprintf("${%s} is no variable: a name has letters, digits and _", expression), "write ${NAME}, ${NAME:-default} or ${file:PATH}, or $${ for a literal ${")
		return
	}
	value, ok := s.env.LookupEnv(name)
	switch {
	case hasDefault && value == "":
		s.run(fallback)
	case !ok:
		s.fault = faulty(fmt.Sprintf("the environment variable %s is not set", name), fmt.Sprintf("set it, or give a default: ${%s:-…}", name))
	default:
		s.foreign(value)
	}
}

func (s *substitution) putFile(path string) {
	inner := &substitution{env: s.env, dir: s.dir, file: s.file, depth: s.depth}
	inner.run(path)
	if s.fault = inner.fault; s.fault != nil {
		return
	}
	path = absolute(s.dir, inner.out.String())
	s.file(path)
	data, err := s.env.ReadFile(path)
	if err != nil {
		s.fault = faulty(fmt.Sprintf("the file of ${file:%s} cannot be read: %s", inner.out.String(), regularfile.Reason(err)), "")
		return
	}
	content := strings.TrimSuffix(string(data), "\n")
	s.foreign(strings.TrimSuffix(content, "\r"))
}

func variableName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return name != ""
}

// absolute is a path of a document, made independent of where the gateway runs.
func absolute(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return filepath.Clean(path)
}
