// Package config turns documents into a model.Gateway, or into problems that
// say where, what and how to mend. It decodes strictly and with positions: YAML
// nodes into structs of its own, those into the model. What is decoded never
// runs, and nothing here opens a socket or starts anything; kinds of middleware
// come in from outside as a table.
//
// A kind describes its options with a struct of its own. The tag `config` names
// a key, `doc` describes it, `enum` lists the texts that it may be:
//
//	type Options struct {
//		Max    config.Size                  `config:"max,required" doc:"how many bytes a body may have"`
//		Mode   string                       `config:"mode" enum:"enforce|shadow" doc:"whether the limit holds"`
//		Deny   []config.Prefix              `config:"deny" doc:"client addresses that are refused"`
//		Set    config.Map[config.Template]  `config:"set" doc:"fields that are set"`
//		Extra  *Extra                       `config:"extra" doc:"nil where it is not written"`
//		Wanted config.Later                 `config:"wanted"` // known, and refused as not supported yet
//	}
//
// Fields may be booleans, integers, strings, the types of this package, nested
// structs, slices, and pointers, which stay nil for what is not written. A
// struct that has defaults wherever it appears implements Defaulter.
package config

import (
	"io/fs"
	"os"
	"time"

	"sluice/internal/model"
	"sluice/internal/pemfile"
	"sluice/internal/regularfile"
)

// Document is one piece of configuration from one provider.
type Document struct {
	Name     string // as shown in problems: the path as the user gave it
	Dir      string // what relative paths in it are relative to
	Data     []byte
	Provider string // file, admin …
}

// Kind is one kind of middleware: how its options are decoded and validated.
type Kind struct {
	Name string
	// Options returns a pointer to a new options struct, with defaults in it.
	Options func() any
	// Validate turns decoded options into immutable settings, or reports
	// problems; then the settings are not used.
	Validate func(options any, report model.Report) any
	// Role is what settings mean for other middleware of a chain. nil: nothing.
	Role func(settings any) model.Role
	// Warn reports what of settings is odd, though it may be meant: these are told, and
	// nothing is refused for them. nil: nothing.
	Warn func(settings any, report model.Report)
}

// Environment is what documents may take from outside, and where they are
// checked against it. A nil function means the operating system's, but for Stat.
type Environment struct {
	LookupEnv func(string) (string, bool)
	ReadFile  func(string) ([]byte, error)
	ReadList  func(string) ([]byte, error) // files that hold lists, as of keys
	// Stat looks at the places of sockets and of the access log, for a check
	// that serves nothing. nil: they are not looked at, since who serves finds
	// out, and goes on with what it has where a directory went away meanwhile.
	Stat func(string) (fs.FileInfo, error)
	// Inspect reads certificates and keys, to be checked: what they are is no part
	// of what the documents mean, since whoever uses them takes up new ones by
	// itself.
	Inspect func(string) ([]byte, error)
	Now     func() time.Time // for certificates, which have an end
}

// WithDefaults puts the operating system's functions in where there is none: of
// files ReadFile and ReadList, with the bounds of values and lists.
func (e Environment) WithDefaults() Environment {
	if e.LookupEnv == nil {
		e.LookupEnv = os.LookupEnv
	}
	if e.Now == nil {
		e.Now = time.Now
	}
	if e.Inspect == nil {
		e.Inspect = func(name string) ([]byte, error) { return regularfile.Read(name, pemfile.Largest) }
	}
	if e.ReadFile == nil {
		e.ReadFile = func(name string) ([]byte, error) { return regularfile.Read(name, LargestValue) }
	}
	if e.ReadList == nil {
		e.ReadList = func(name string) ([]byte, error) { return regularfile.Read(name, LargestList) }
	}
	return e
}

// Later is the type of an option that is known but not supported yet: writing
// it is a problem that says so. It is left out of Schema and Reference.
type Later struct{}

// Defaulter is a struct of options that has defaults wherever it appears.
type Defaulter interface {
	// SetDefaults is called on a new value before anything is decoded into it.
	SetDefaults()
}

// Map is a mapping of names to values, in the order in which it is written.
type Map[T any] []Entry[T]

// Entry is one name of a Map with its value.
type Entry[T any] struct {
	Key   string
	Value T

	key place // of the key
}

// fault is a problem whose place the caller knows.
type fault struct{ message, hint string }

func faulty(message, hint string) *fault { return &fault{message, hint} }
