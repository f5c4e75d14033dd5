package config

import (
	"go.yaml.in/yaml/v3"

	"sluice/internal/regularfile"
)

// File is a file that options name, and what is in it: a part of what the documents
// mean, as with ${file:}. They are resolved again when it changes, and refused while
// something is wrong with it.
type File struct {
	Path string // absolute
	Data []byte
}

func (f *File) decode(d *decoder, n *yaml.Node) {
	d.scalar(n, "the path of a file", func(s scalar) *fault {
		if s.s == "" || !s.loose && s.nature() != isText {
			return unwanted("")
		}
		path := absolute(d.src.Dir, s.s)
		d.file(path)
		data, err := d.env.ReadList(path)
		if err != nil {
			return faulty("cannot be read: "+regularfile.Reason(err), "")
		}
		f.Path, f.Data = path, data
		return nil
	})
}
