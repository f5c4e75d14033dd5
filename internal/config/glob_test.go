package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGlobLeavesHiddenFilesOut(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"b.yaml", "a.yaml", ".hidden.yaml", "d/x.yaml", ".git/x.yaml"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("ann@host.1:2", ".#a.yaml"); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"*.yaml": "a.yaml b.yaml", "./*.yaml": "a.yaml b.yaml", ".*.yaml": ".#a.yaml .hidden.yaml", "*/x.yaml": "d/x.yaml", ".git/*.yaml": ".git/x.yaml", "../*/none": "",
	} {
		got, err := Glob(pattern)
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "./")
		}
		if text := strings.Join(got, " "); text != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", pattern, text, err, want)
		}
	}
	if _, err := Glob("["); !errors.Is(err, filepath.ErrBadPattern) {
		t.Errorf("a bad pattern: %v", err)
	}
}
