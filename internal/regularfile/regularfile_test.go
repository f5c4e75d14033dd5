package regularfile_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sluice/internal/regularfile"
)

func TestRead(t *testing.T) {
	const most = 4 << 20
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("x"), 0o600),
		os.WriteFile(at("secret"), []byte("x"), 0),
		os.Symlink("file", at("link")),
		syscall.Mkfifo(at("pipe"), 0o600),
		os.WriteFile(at("large"), nil, 0o600), os.Truncate(at("large"), most+1),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "link"} {
		if data, err := regularfile.Read(at(name), most); string(data) != "x" || err != nil {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	for _, c := range []struct {
		path, want string
		is         error
	}{
		{at("none"), "the file does not exist", fs.ErrNotExist},
		{at("pipe"), "this is a pipe, not a regular file", regularfile.ErrIrregular},
		{at("socket"), "this is a socket, not a regular file", regularfile.ErrIrregular},
		{"/dev/zero", "this is a device, not a regular file", regularfile.ErrIrregular},
		{dir, "this is a directory, not a file", regularfile.ErrDirectory},
		{at("large"), "the file is larger than 4 MiB", nil},
		{at("file/below"), "not a directory", syscall.ENOTDIR},
	} {
		_, err := regularfile.Read(c.path, most)
		if err == nil || regularfile.Reason(err) != c.want || regularfile.Plain(err).Error() != c.want || c.is != nil && !errors.Is(regularfile.Plain(err), c.is) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	if os.Getuid() == 0 {
		return // who may read everything
	}
	if _, err := regularfile.Read(at("secret"), most); regularfile.Reason(err) != "the file may not be read by this user" {
		t.Errorf("forbidden: %v", err)
	}
}

func TestSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write := func(path, text string, seconds int64) fs.FileInfo {
		t.Helper()
		at := time.Unix(seconds, 0)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write(path, "one", 1)
	if !regularfile.Same(first, write(path, "two", 1)) { // nothing shows it
		t.Error("equal from outside, and not the same")
	}
	for name, other := range map[string]fs.FileInfo{
		"another time": write(path, "one", 2), "another length": write(path, "three", 1), "another file": write(path+"2", "one", 1),
	} {
		if regularfile.Same(first, other) {
			t.Errorf("%s is the same", name)
		}
	}
}
