package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
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
