package acme

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"golang.org/x/sys/unix"
)

// diskStorage keeps certificates in a directory, in certmagic's layout. Its
// locks are the system's (flock), which end with the process that holds them;
// certmagic's lock files have to be touched every few seconds by goroutines
// that outlive the lock and speak to standard error.
type diskStorage struct {
	*certmagic.FileStorage

	mu   sync.Mutex
	held map[string]*os.File
}

// diskPoll is how often a lock that somebody has is tried.
const diskPoll = 100 * time.Millisecond

var errNotHeld = errors.New("the lock is not held")

// newDiskStorage makes the directory where it is missing.
func newDiskStorage(directory string) (*diskStorage, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	return &diskStorage{FileStorage: &certmagic.FileStorage{Path: directory}, held: map[string]*os.File{}}, nil
}

// Lock is a method of certmagic.Locker. It waits until the lock is free or ctx
// ends.
func (s *diskStorage) Lock(ctx context.Context, name string) error {
	return awaitLock(ctx, s, name, diskPoll)
}

// awaitLock tries a lock again and again, until it is free or ctx ends.
func awaitLock(ctx context.Context, by certmagic.TryLocker, name string, poll time.Duration) error {
	for {
		ok, err := by.TryLock(ctx, name)
		if ok || err != nil {
			return err
		}
		timer := time.NewTimer(poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// TryLock is a method of certmagic.TryLocker.
func (s *diskStorage) TryLock(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	folder := filepath.Join(s.Path, "locks")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return false, fmt.Errorf("lock %s: %w", name, err)
	}
	// The file stays: removing it could take it from under one who waits.
	file, err := os.OpenFile(filepath.Join(folder, certmagic.StorageKeys.Safe(name)+".flock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", name, err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held[name] = file
		return true, nil
	}
	if cause := file.Close(); cause != nil {
		return false, cause
	}
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w", name, err)
}

// Unlock is a method of certmagic.Locker.
func (s *diskStorage) Unlock(_ context.Context, name string) error {
	s.mu.Lock()
	file := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if file == nil {
		return fmt.Errorf("unlock %s: %w", name, errNotHeld)
	}
	return file.Close() // which gives the lock back
}
