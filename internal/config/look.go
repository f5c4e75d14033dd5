package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/internal/pemfile"
	"sluice/internal/regularfile"
)

// look reports, where it can look, that there is no directory for a file to be
// made in, or that what is at its path is in the way.
func (r *resolver) look(where place, name, path string, inTheWay func(fs.FileMode) string) {
	if r.stat == nil {
		return
	}
	directory := filepath.Dir(path)
	switch info, err := r.stat(directory); {
	case errors.Is(err, fs.ErrNotExist):
		r.out.add(where, fmt.Sprintf("%s cannot be made: its directory %s does not exist", name, short(directory)), "make the directory first")
		return
	case err != nil:
		return // who serves may be another user
	case !info.IsDir():
		r.out.add(where, fmt.Sprintf("%s cannot be made: %s is not a directory", name, short(directory)), "")
		return
	}
	if info, err := r.stat(path); err == nil {
		if text := inTheWay(info.Mode()); text != "" {
			r.out.add(where, fmt.Sprintf("%s cannot be made at %s: %s", name, short(path), text), "")
		}
	}
}

func (r *resolver) lookAtSocket(where place, address string) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		r.look(where, "the socket", path, func(mode fs.FileMode) string {
			if mode&fs.ModeSocket == 0 {
				return "what is there is not a socket"
			}
			return ""
		})
	}
}

// lookAtPair reports what is wrong with a certificate and its key. check is of
// package pemfile.
func (r *resolver) lookAtPair(l *located, cert, key string, check func(cert, key []byte, now time.Time) []pemfile.Fault) {
	certificate, ok := r.inspected(l.below("cert"), "cert", l.src.Dir, cert)
	private, also := r.inspected(l.below("key"), "key", l.src.Dir, key)
	if !ok || !also {
		return
	}
	for _, f := range check(certificate, private, r.now()) {
		r.faulty(l.below(string(f.In)), string(f.In), f, absolute(l.src.Dir, cert), absolute(l.src.Dir, key))
	}
}

// lookAtAuthorities reports what is wrong with a file of authorities.
func (r *resolver) lookAtAuthorities(where place, name, path string) {
	text, ok := r.inspected(where, name, "", path)
	if !ok {
		return
	}
	for _, f := range pemfile.CheckAuthorities(text, r.now()) {
		r.faulty(where, name, f, path)
	}
}

// faulty reports what is wrong with files; one of them may mend it.
func (r *resolver) faulty(where place, name string, f pemfile.Fault, paths ...string) {
	if f.Warning {
		r.out.warn(where, name+": "+f.Message, f.Hint)
		return
	}
	r.out.add(where, name+": "+f.Message, f.Hint)
	for _, path := range paths {
		r.file(path)
	}
}

// inspected reads a file that is watched by whoever uses it. While it keeps the
// documents from serving nobody does, so that it counts as one of theirs.
func (r *resolver) inspected(where place, name, dir, path string) ([]byte, bool) {
	if path == "" {
		r.out.add(where, name+" is empty", "write the path of a PEM file")
		return nil, false
	}
	path = absolute(dir, path)
	text, err := r.inspect(path)
	if err != nil {
		r.out.add(where, fmt.Sprintf("%s cannot be read: %s", name, regularfile.Reason(err)), "")
		r.file(path)
		return nil, false
	}
	return text, true
}

// lookAtStorage returns the path of a directory, which is made where there is
// none, and reports what is in its way.
func (r *resolver) lookAtStorage(where place, name, dir, written string) (path string) {
	path = absolute(dir, written)
	_, err := r.inspect(path)
	var unseen *fs.PathError
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		r.out.add(where, fmt.Sprintf("%s cannot be the directory %s: a part of that path is a file", name, short(written)), "name a directory")
	case errors.Is(err, regularfile.ErrDirectory), errors.As(err, &unseen):
		return path // it is one, or will be made; what else there is, who serves finds out
	default: // a file, of whatever kind and size
		r.out.add(where, fmt.Sprintf("%s must be a directory, and %s is none", name, short(written)), "name a directory; it is made if it is missing")
	}
	r.file(path)
	return path
}
