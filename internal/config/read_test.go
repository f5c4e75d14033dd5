package config_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/config"
)

// What has no end, or makes a reader wait, is a problem at once wherever a
// document may name it.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Symlink("pipe", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	main := filepath.Join(dir, "main.yaml")
	for path, want := range map[string]string{
		pipe:                       "this is a pipe, not a regular file",
		filepath.Join(dir, "link"): "this is a pipe, not a regular file",
		socket:                     "this is a socket, not a regular file",
		"/dev/zero":                "this is a device, not a regular file",
		dir:                        "this is a directory, not a file",
	} {
		for _, text := range []string{listen + "admin: {token: \"${file:" + path + "}\"}\n", "include: [" + path + "]\n" + listen} {
			if err := os.WriteFile(main, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			documents, _, problems := config.Load(main)
			if len(problems) == 0 {
				problems = config.Resolve(documents, testKinds(), config.Environment{}).Problems
			}
			if len(problems) != 1 || !strings.HasSuffix(problems[0].Message, want) {
				t.Errorf("%s: got %v", text, problems)
			}
		}
		if _, _, problems := config.Load(path); len(problems) != 1 || !strings.HasPrefix(problems[0].Message, want) {
			t.Errorf("%s: got %v", path, problems)
		}
	}
}

func TestFilesThatAreTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	for size, want := range map[int]string{config.LargestValue: "", config.LargestValue + 1: "the file is larger than 1 MiB"} {
		if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		document := config.Document{Name: "sluice.yaml", Dir: "/", Data: []byte(listen + "admin: {token: \"${file:" + path + "}\"}\n")}
		problems := config.Resolve([]config.Document{document}, testKinds(), config.Environment{}).Problems
		if want == "" && problems != nil || want != "" && (len(problems) != 1 || !strings.HasSuffix(problems[0].Message, want)) {
			t.Errorf("%d bytes: %v", size, problems)
		}
	}
	if err := os.Truncate(path, config.LargestDocument+1); err != nil {
		t.Fatal(err)
	}
	if _, _, problems := config.Load(path); len(problems) != 1 || problems[0].Message != "the file is larger than 32 MiB" {
		t.Errorf("got %v", problems)
	}
}

// Who reads a file once may take it from a pipe, but what it includes may not
// be one.
func TestLoadOnce(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("include: [pipe]\n"), 0) }() // ends when it is read
	documents, problems := config.LoadOnce(pipe)
	if len(documents) != 1 || string(documents[0].Data) != "include: [pipe]\n" || len(problems) != 1 || !strings.HasSuffix(problems[0].Message, "cannot be included: this is a pipe, not a regular file") {
		t.Errorf("got %q, %v", documents, problems)
	}
	if _, problems = config.LoadOnce(dir); len(problems) != 1 || problems[0].Message != "this is a directory, not a file" {
		t.Errorf("got %v", problems)
	}
	if _, problems = config.LoadOnce("/dev/zero"); len(problems) != 1 || problems[0].Message != "the file is larger than 32 MiB" {
		t.Errorf("got %v", problems)
	}
}
