package pemfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Largest is the size of the largest file that is read: some hundred
// authorities take a few hundred KiB.
const Largest = 4 << 20

var (
	errMissing   = errors.New("the file does not exist")
	errForbidden = errors.New("the file may not be read by this user")
	errIrregular = errors.New("this is not a regular file")
	errLarge     = fmt.Errorf("the file is larger than %d MiB", Largest>>20)
)

// Read reads a regular file, links followed, of at most Largest bytes. What has
// no end or might make it wait is refused: pipes, devices, sockets. The error
// says why without the path; it wraps fs.ErrNotExist or fs.ErrPermission where it is
// that.
func Read(path string) ([]byte, error) {
	data, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, reason{errMissing, err}
	case errors.Is(err, fs.ErrPermission):
		return nil, reason{errForbidden, err}
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return data, err
}

// reason says in plain words what another error means.
type reason struct{ words, cause error }

func (r reason) Error() string { return r.words.Error() }
func (r reason) Unwrap() error { return r.cause }

func read(path string) (data []byte, err error) {
	// A look before it is opened, since that alone may do something to a device,
	// and one after, since the path may mean another file by then.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errIrregular
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errIrregular
	}
	data, err = io.ReadAll(io.LimitReader(file, Largest+1))
	if err == nil && len(data) > Largest {
		return nil, errLarge
	}
	return data, err
}
