// Package waittest has tests wait for conditions, and never for times. It is for tests
// only, and imports nothing of Sluice, so that every package's tests can have it.
package waittest

import (
	"testing"
	"time"
)

// Patience bounds every wait; a machine under load is slow.
const Patience = 60 * time.Second

// Until polls until a condition holds, and ends the test if it never does. It belongs
// to the test's own goroutine.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !condition(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// Receive is what a channel gives, and ends the test if it stays silent. It belongs to
// the test's own goroutine.
func Receive[T any](t testing.TB, what string, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(Patience):
		t.Fatalf("waited in vain: %s", what)
	}
	return value
}
