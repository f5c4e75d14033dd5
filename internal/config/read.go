package config

import (
	"errors"
	"os"

	"sluice/internal/regularfile"
)

// The sizes of what is not read: 10,000 routes take 2 MiB, and a value is a
// password, a key or a page; a list has 100,000 keys or users.
const (
	LargestDocument = 32 << 20
	LargestList     = 16 << 20
	LargestValue    = 1 << 20
)

var errEmpty = errors.New("the file is empty")

// readStream reads a file of any kind but a directory, once and to its end,
// which may make it wait.
func readStream(name string, most int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return regularfile.ReadAll(file, most)
}
