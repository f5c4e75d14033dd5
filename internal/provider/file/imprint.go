package file

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"time"

	"sluice/internal/config"
	"sluice/internal/regularfile"
)

// imprint is what a file was at one time.
type imprint struct {
	sum      [sha256.Size]byte // of its content, or of why it has none
	blank    bool              // it is missing, or has nothing but white space
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
	info, err := os.Stat(path)
	if err != nil {
		return failed(err)
	}
	content, err := regularfile.Read(path, config.LargestDocument)
	if err != nil {
		return failed(err)
	}
	return imprint{sum: sha256.Sum256(content), blank: len(bytes.TrimSpace(content)) == 0, modified: info.ModTime()}
}

func failed(err error) imprint {
	return imprint{sum: sha256.Sum256([]byte(err.Error())), blank: errors.Is(err, fs.ErrNotExist)}
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
