package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// The sizes of what is not read: 10,000 routes take 2 MiB, and a value is a
// password, a key or a page.
const (
	LargestDocument = 32 << 20
	LargestValue    = 1 << 20
)

var (
	errEmpty     = errors.New("the file is empty")
	errDirectory = errors.New("this is a directory, not a file")
	errIrregular = errors.New("not a regular file")
)

// ReadFile reads a regular file, links followed, of at most so many bytes. It
// refuses what might have no end or make it wait: pipes, devices, sockets.
// Documents, what they include and what ${file:} names are read with it.
func ReadFile(name string, most int) ([]byte, error) {
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
	return readAll(file, most)
}

// readStream reads a file of any kind but a directory, once and to its end,
// which may make it wait.
func readStream(name string, most int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return readAll(file, most)
}

func readAll(file *os.File, most int) (data []byte, err error) {
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err = io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(data) > most {
		return nil, fmt.Errorf("the file is larger than %d MiB", most>>20)
	}
	return data, err
}

// regular tells what keeps a file from being read as one.
func regular(info fs.FileInfo) error {
	what := "something else"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return errDirectory
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return fmt.Errorf("this is %s, %w", what, errIrregular)
}

// reason is why a file cannot be read, without its path.
func reason(err error) string {
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the file does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "the file may not be read by this user"
	case errors.Is(err, syscall.EISDIR):
		return errDirectory.Error()
	case errors.As(err, &path):
		return path.Err.Error()
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
