package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"sluice/internal/model"
	"sluice/internal/regularfile"
)

// FileProvider is the provider of documents that Load reads.
const FileProvider = "file"

// Load reads a file and the files that it includes, in the order of their
// include keys; a glob's matches come sorted. A file that is included twice is
// read once, one that includes itself is a problem.
//
// watch names every file that was read or is missing, and every glob pattern,
// whose matches may change. Documents that could be read are returned in any
// case; with problems they are not the whole.
func Load(file string) (documents []Document, watch []string, problems []model.Problem) {
	l := &loader{out: newCollector(), known: map[string]bool{}}
	l.load(file, place{src: &source{Document: Document{Name: file}}}, nil, regularfile.Read)
	return l.documents, l.watch, l.out.sorted()
}

// LoadOnce is Load for who reads the file a single time: it may be a pipe or a
// terminal, as /dev/stdin is, and is read to its end. What it includes may not.
func LoadOnce(file string) (documents []Document, problems []model.Problem) {
	l := &loader{out: newCollector(), known: map[string]bool{}}
	l.load(file, place{src: &source{Document: Document{Name: file}}}, nil, readStream)
	return l.documents, l.out.sorted()
}

type loader struct {
	documents []Document
	watch     []string
	out       *collector
	known     map[string]bool // identities of files
}

func (l *loader) note(path string) {
	if !slices.Contains(l.watch, path) {
		l.watch = append(l.watch, path)
	}
}

// load reads one file. from is where it is named, above are the identities of
// the files that include it.
func (l *loader) load(name string, from place, above []string, read func(name string, most int) ([]byte, error)) {
	l.note(name)
	data, err := read(name, LargestDocument)
	if err == nil && strings.Trim(strings.TrimPrefix(string(data), "\ufeff"), " \t\r\n") == "" {
		err = errEmpty
	}
	if err != nil {
		message, hint := regularfile.Reason(err), ""
		switch {
		case from.node != nil:
			message = fmt.Sprintf("%s cannot be included: %s", name, message)
		case errors.Is(err, regularfile.ErrIrregular):
			hint = "save it to a file, which can be read again on each reload"
		}
		l.out.add(from, message, hint)
		return
	}
	identity := identify(name)
	switch {
	case slices.Contains(above, identity):
		l.out.add(from, name+" includes itself", "remove it from include")
		return
	case l.known[identity]:
		return
	}
	l.known[identity] = true
	document := Document{Name: name, Dir: filepath.Dir(name), Data: data, Provider: FileProvider}
	if absolute, err := filepath.Abs(document.Dir); err == nil {
		document.Dir = absolute
	}
	l.documents = append(l.documents, document)
	l.include(document, append(above[:len(above):len(above)], identity))
}

// include loads what a document includes. A document that cannot be parsed
// includes nothing; Resolve tells why.
func (l *loader) include(document Document, above []string) {
	if !strings.Contains(string(document.Data), "include") {
		return
	}
	src, ok := parse(document, len(l.documents)-1, newCollector())
	if !ok || src.root == nil || src.root.Kind != yaml.MappingNode {
		return
	}
	quiet := newDecoder(src, nil, Environment{}.WithDefaults(), newCollector(), l.note)
	var list *yaml.Node
	for _, p := range quiet.pairs(src.root) {
		if p.key.Value == "include" {
			list, _ = quiet.follow(p.value)
		}
	}
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	for _, item := range list.Content {
		if item, ok := quiet.follow(item); ok && item.Kind == yaml.ScalarNode && !isNullNode(item) {
			if s, f := quiet.read(item); f == nil && s.s != "" {
				l.pattern(document, s.s, place{src, item}, above)
			}
		}
	}
}

func (l *loader) pattern(document Document, pattern string, from place, above []string) {
	path := pattern
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(document.Name), path)
	}
	if !strings.ContainsAny(pattern, `*?[\`) {
		l.load(path, from, above, regularfile.Read)
		return
	}
	l.note(path)
	matches, err := Glob(path)
	if err != nil {
		l.out.add(from, fmt.Sprintf("%s is no pattern of file names: %v", short(pattern), err), "")
	}
	for _, match := range matches {
		l.load(match, from, above, regularfile.Read)
	}
}

// Glob returns the paths that a pattern of include matches, sorted. As in a
// shell, a name that begins with a dot has to be asked for: editors put locks
// and unsaved text beside a file under such names.
func Glob(pattern string) ([]string, error) {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(matches, func(match string) bool {
		asked := strings.Split(filepath.ToSlash(pattern), "/")
		names := strings.Split(filepath.ToSlash(match), "/")
		for i := 1; i <= min(len(names), len(asked)); i++ { // from the end: what is in front may be written in two ways
			name := names[len(names)-i]
			if strings.HasPrefix(name, ".") && !strings.HasPrefix(asked[len(asked)-i], ".") {
				return true
			}
		}
		return false
	}), nil
}

// identify names a file so that two ways to it are one.
func identify(name string) string {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if absolute, err := filepath.Abs(name); err == nil {
		name = absolute
	}
	return name
}
