package config

import (
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// ListFile is a File that holds a list: YAML, or JSON, decoded as documents are, with
// variables, and with positions of its own in problems.
type ListFile[T any] struct {
	File

	Items []T

	lines []int
}

// Where tells where an item stands, for messages.
func (f *ListFile[T]) Where(item int) string {
	return fmt.Sprintf("%s:%d", filepath.Base(f.Path), f.lines[item])
}

func (f *ListFile[T]) decode(d *decoder, n *yaml.Node) {
	faults := d.out.faults
	f.File.decode(d, n)
	if d.out.faults > faults {
		return
	}
	src, ok := parse(Document{Name: f.Path, Dir: filepath.Dir(f.Path), Data: f.Data}, d.src.order, d.out)
	src.listed = true
	switch {
	case !ok:
		return
	case src.root == nil:
		d.problem(n, d.name()+": the file is empty", "write [] for an empty list")
		return
	}
	inner := newDecoder(src, nil, d.env, d.out, d.file)
	inner.listed = true
	inner.path = []hop{{filepath.Base(f.Path), -1}}
	inner.into(src.root, &f.Items)
	if d.out.faults > faults {
		return
	}
	root, _ := inner.follow(src.root)
	for _, item := range root.Content {
		f.lines = append(f.lines, item.Line)
	}
}

// namedFile is a type that is written as the path of a file.
type namedFile interface{ namedFile() }

func (*File) namedFile() {}
