package acme

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/google/go-cmp/cmp"
)

type locker interface {
	certmagic.Storage
	certmagic.TryLocker
}

// storages are the kinds, each with a way to make one that opens it once more as
// another instance does. certmagic's own storage on disk is the oracle.
var storages = map[string]func(t *testing.T) (open func() locker){
	"certmagic": func(t *testing.T) func() locker {
		t.Helper()
		folder := t.TempDir()
		return func() locker { return &certmagic.FileStorage{Path: folder} }
	},
	"disk": func(t *testing.T) func() locker {
		t.Helper()
		folder := t.TempDir()
		return func() locker {
			storage, err := newDiskStorage(folder)
			if err != nil {
				t.Fatal(err)
			}
			return storage
		}
	},
	"redis": func(t *testing.T) func() locker {
		t.Helper()
		database := newRedis(t)
		database.start()
		return func() locker { return database.storage(time.Second) }
	},
}

func TestStorage(t *testing.T) {
	for kind, prepare := range storages {
		t.Run(kind, func(t *testing.T) { testStorage(t, prepare(t)) })
	}
}

func testStorage(t *testing.T, open func() locker) {
	t.Helper()
	ctx := t.Context()
	writer, storage := open(), open()
	store := func(key, value string) {
		t.Helper()
		if err := writer.Store(ctx, key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	for _, key := range []string{"a/b/one", "a/b/two", "a/bc", "a.b/x", "a0/y", "top"} {
		store(key, "first of "+key)
	}
	store("a/b/one", "\x00\xff")
	store("empty/file", "")

	for key, want := range map[string]string{"a/b/one": "\x00\xff", "top": "first of top", "empty/file": ""} {
		if got, err := storage.Load(ctx, key); err != nil || string(got) != want {
			t.Errorf("load %s: %q, %v", key, got, err)
		}
	}
	if _, err := storage.Load(ctx, "a/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("load what is not there: %v", err)
	}
	for key, want := range map[string]bool{"a": true, "a/b": true, "a/b/one": true, "empty/file": true, "a/bc": true, "b": false, "a/b/on": false, "a/b/one/x": false, "to": false} {
		if want || key != "a/b/one/x" { // certmagic's own takes a file for a folder there
			if got := storage.Exists(ctx, key); got != want {
				t.Errorf("%s exists: %v", key, got)
			}
		}
	}

	if info, err := storage.Stat(ctx, "a/b/one"); err != nil || info.Key != "a/b/one" || info.Size != 2 || !info.IsTerminal ||
		info.Modified.Before(begin.Add(-2*time.Second)) || info.Modified.After(time.Now().Add(2*time.Second)) {
		t.Errorf("stat of a file: %+v, %v", info, err)
	}
	if info, err := storage.Stat(ctx, "a/b"); err != nil || info.Key != "a/b" || info.IsTerminal {
		t.Errorf("stat of a directory: %+v, %v", info, err)
	}
	if _, err := storage.Stat(ctx, "a/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of what is not there: %v", err)
	}

	for _, test := range []struct {
		directory string
		recursive bool
		want      []string
	}{
		{"a", false, []string{"a/b", "a/bc"}},
		{"a", true, []string{"a/b", "a/b/one", "a/b/two", "a/bc"}},
		{"a/b", false, []string{"a/b/one", "a/b/two"}},
		{"a.b", true, []string{"a.b/x"}},
		{"", false, []string{"a", "a.b", "a0", "empty", "top"}},
		{"", true, []string{"a", "a.b", "a.b/x", "a/b", "a/b/one", "a/b/two", "a/bc", "a0", "a0/y", "empty", "empty/file", "top"}},
		{"top", true, nil},
	} {
		got, err := storage.List(ctx, test.directory, test.recursive)
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("list %q, recursive %v: %v\n%s", test.directory, test.recursive, err, diff)
		}
	}
	if got, err := storage.List(ctx, "missing", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("list of what is not there: %v, %v", got, err)
	}

	for _, key := range []string{"top", "a/b", "missing", "top"} {
		if err := writer.Delete(ctx, key); err != nil {
			t.Errorf("delete %s: %v", key, err)
		}
	}
	got, err := storage.List(ctx, "", true)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a", "a.b", "a.b/x", "a/bc", "a0", "a0/y", "empty", "empty/file"}, got); err != nil || diff != "" {
		t.Errorf("what is left: %v\n%s", err, diff)
	}
	if _, err := storage.Load(ctx, "a/b/one"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("load below what was deleted: %v", err)
	}
}

func TestLocks(t *testing.T) {
	for kind, prepare := range storages {
		if kind == "certmagic" {
			continue // the goroutines of its locks outlive them
		}
		t.Run(kind, func(t *testing.T) { testLocks(t, prepare(t)) })
	}
}

func testLocks(t *testing.T, open func() locker) {
	t.Helper()
	ctx := t.Context()
	one, two := open(), open()
	if err := one.Lock(ctx, "name"); err != nil {
		t.Fatal(err)
	}
	if err := one.Lock(ctx, "other/name"); err != nil {
		t.Fatal(err)
	}
	for _, storage := range []locker{one, two} {
		if ok, err := storage.TryLock(ctx, "name"); ok || err != nil {
			t.Errorf("a lock that is held: %v, %v", ok, err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := two.Lock(short, "name"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that ends early: %v", err)
	}
	if ok, err := two.TryLock(short, "name"); ok || err == nil {
		t.Errorf("a try that is too late: %v, %v", ok, err)
	}
	if err := two.Unlock(ctx, "name"); !errors.Is(err, errNotHeld) {
		t.Errorf("another one's lock: %v", err)
	}
	free := make(chan error, 1)
	go func() { free <- two.Lock(ctx, "name") }()
	if err := one.Unlock(ctx, "name"); err != nil {
		t.Fatal(err)
	}
	if err := <-free; err != nil {
		t.Fatal(err)
	}
	if err := one.Unlock(ctx, "name"); !errors.Is(err, errNotHeld) {
		t.Errorf("a lock that was given back: %v", err)
	}
	for storage, name := range map[locker]string{one: "other/name", two: "name"} {
		if err := storage.Unlock(ctx, name); err != nil {
			t.Error(err)
		}
	}

	var inside, most atomic.Int32
	var working sync.WaitGroup
	for range 4 {
		storage := open()
		working.Go(func() {
			for range 5 {
				if err := storage.Lock(ctx, "busy"); err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				inside.Add(-1)
				if err := storage.Unlock(ctx, "busy"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held one lock", most.Load())
	}
}

func TestDiskErrors(t *testing.T) {
	folder := t.TempDir()
	storage, err := newDiskStorage(folder)
	if err != nil {
		t.Fatal(err)
	}
	// A folder in the lock's place, and a file in the folder's.
	if err := os.MkdirAll(filepath.Join(folder, "locks", "name.flock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := storage.Lock(t.Context(), "name"); err == nil || !strings.Contains(err.Error(), "lock name") {
		t.Errorf("got %v", err)
	}
	if err := os.RemoveAll(filepath.Join(folder, "locks")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "locks"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := storage.Lock(t.Context(), "name"); err == nil || !strings.Contains(err.Error(), "lock name") {
		t.Errorf("got %v", err)
	}
}

// What is stored can be read by its owner alone.
func TestDiskIsPrivate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "acme")
	storage, err := newDiskStorage(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := storage.Store(t.Context(), "certificates/site/site.key", []byte("secret")); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
