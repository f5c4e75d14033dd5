// Package regularfile reads files that have an end: documents, secrets,
// certificates. It watches nothing and knows nothing of what is in them.
package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// What a path may lead to in place of a file.
var (
	ErrDirectory = errors.New("this is a directory, not a file")
	ErrIrregular = errors.New("not a regular file")
)

// Read reads a regular file, links followed, of at most so many bytes. It refuses
// what might have no end or make it wait: pipes, devices, sockets.
func Read(name string, most int) ([]byte, error) {
	// A look before the file is opened, since that alone may do something to a
	// device; one after, since the name may mean another file by then. Opening a
	// pipe does not wait for its other end.
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := regular(info); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return ReadAll(file, most)
}

// ReadAll reads a file of any kind to its end, which may make it wait, and closes
// it.
func ReadAll(file *os.File, most int) (data []byte, err error) {
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err = io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(data) > most {
		return nil, fmt.Errorf("the file is larger than %d MiB", most>>20)
	}
	return data, err
}

// Same tells whether two looks at a path found one file that has not changed in
// between, as far as that shows from outside: within a tick of the file system's clock
// it may have.
func Same(before, after fs.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

// regular tells what keeps a file from being read as one.
func regular(info fs.FileInfo) error {
	what := "something else"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return ErrDirectory
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return fmt.Errorf("this is %s, %w", what, ErrIrregular)
}

// Reason is why a file cannot be read, in plain words and without its path.
func Reason(err error) string {
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the file does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "the file may not be read by this user"
	case errors.Is(err, syscall.EISDIR):
		return ErrDirectory.Error()
	case errors.As(err, &path):
		return path.Err.Error()
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// Plain is err with Reason as its text.
func Plain(err error) error { return plain{err} }

type plain struct{ cause error }

func (p plain) Error() string { return Reason(p.cause) }
func (p plain) Unwrap() error { return p.cause }
