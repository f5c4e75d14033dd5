package file

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"time"

	"sluice/internal/config"
)

// largest bounds how much of a file is compared; documents that large are
// refused anyway.
const largest = 128 << 20

// imprint is what a file was at one time.
type imprint struct {
	sum      [sha256.Size]byte // of its content, or of why it has none
	blank    bool              // it is missing, or has nothing but white space
	stream   bool              // it is no regular file: reading it may change it
	modified time.Time
}

// imprints are files by their paths.
type imprints map[string]imprint

// printFiles looks at files.
func printFiles(paths []string) imprints {
	all := imprints{}
	for _, path := range paths {
		all[path] = printFile(path)
	}
	return all
}

// printAll looks at files and at what matches patterns. A path that may be
// either is looked at as both.
func printAll(paths []string) imprints {
	all := printFiles(paths)
	for _, path := range paths {
		if !hasMeta(path) {
			continue
		}
		matches, err := config.Glob(path)
		if err != nil {
			continue // the loader tells
		}
		for _, match := range matches {
			all[match] = printFile(match)
		}
	}
	return all
}

func printFile(path string) imprint {
	info, err := os.Stat(path) // before it is opened: a pipe would wait for a writer
	if err != nil {
		return imprint{sum: sha256.Sum256([]byte(err.Error())), blank: os.IsNotExist(err)}
	}
	if !info.Mode().IsRegular() {
		return imprint{sum: sha256.Sum256([]byte(info.Mode().Type().String())), stream: !info.IsDir()}
	}
	content, err := readFile(path)
	if err != nil {
		return imprint{sum: sha256.Sum256([]byte(err.Error())), blank: os.IsNotExist(err)}
	}
	return imprint{sum: sha256.Sum256(content), blank: len(bytes.TrimSpace(content)) == 0, modified: info.ModTime()}
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, largest))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return content, err
}

// equal tells whether the same paths have the same content.
func (p imprints) equal(other imprints) bool {
	if len(p) != len(other) {
		return false
	}
	for path, now := range p {
		if then, ok := other[path]; !ok || now.sum != then.sum {
			return false
		}
	}
	return true
}

// unsettled tells whether a path has just lost what it had, or has just come to
// be with nothing in it, as happens in the middle of a save.
func (p imprints) unsettled(before imprints) bool {
	for path, now := range p {
		if then, ok := before[path]; now.blank && (!ok || then.sum != now.sum) {
			return true
		}
	}
	for path, then := range before {
		if _, ok := p[path]; !ok && !then.blank {
			return true
		}
	}
	return false
}

// once tells whether a path can be read only once.
func (p imprints) once(path string) bool { return p[path].stream }
