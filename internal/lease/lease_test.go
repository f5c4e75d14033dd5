package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// object notes what is done to it.
type object struct {
	name string
	log  *[]string
	fail error
}

func (o *object) Start() error {
	*o.log = append(*o.log, "start "+o.name)
	return o.fail
}

func (o *object) Release() { *o.log = append(*o.log, "release "+o.name) }

// ledger is a registry whose objects note what is done to them.
type ledger struct {
	Registry
	log []string
}

func (l *ledger) acquire(s *Set, name string) *object {
	return Acquire(s, name, func() *object {
		l.log = append(l.log, "build "+name)
		return &object{name: name, log: &l.log}
	})
}

func (l *ledger) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(l.log, want) {
		t.Errorf("got %q, want %q", l.log, want)
	}
	l.log = nil
}

func TestSetsShareEqualIdentities(t *testing.T) {
	l := &ledger{}
	first := l.NewSet()
	a := l.acquire(first, "a")
	if l.acquire(first, "a") != a {
		t.Error("one set has two objects of one identity")
	}
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "build a", "start a")

	second := l.NewSet()
	if l.acquire(second, "a") != a {
		t.Error("two sets have two objects of one identity")
	}
	b := l.acquire(second, "b")
	if b == a {
		t.Error("two identities share an object")
	}
	if err := second.Commit(); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "build b", "start b")

	first.Release()
	l.expect(t) // the second set goes on with a
	if err := l.Idle(); !errors.Is(err, ErrHeld) {
		t.Errorf("idle: %v", err)
	}
	second.Release()
	l.expect(t, "release b", "release a")
	if err := l.Idle(); err != nil {
		t.Errorf("idle: %v", err)
	}

	third := l.NewSet()
	if l.acquire(third, "a") == a {
		t.Error("an ended object is back")
	}
	l.expect(t, "build a")
}

func TestAnObjectThatWasAcquiredTwiceByASetIsHeldOnce(t *testing.T) {
	l := &ledger{}
	s := l.NewSet()
	l.acquire(s, "a")
	l.acquire(s, "a")
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	s.Release()
	s.Release() // does nothing
	l.expect(t, "build a", "start a", "release a")
}

func TestStartsInOrderAndReleasesInReverse(t *testing.T) {
	l := &ledger{}
	s := l.NewSet()
	for _, name := range []string{"c", "a", "b"} {
		l.acquire(s, name)
	}
	for range 2 { // a second commit starts nothing again
		if err := s.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	s.Release()
	l.expect(t, "build c", "build a", "build b", "start c", "start a", "start b", "release b", "release a", "release c")
}

func TestFailedCommit(t *testing.T) {
	l := &ledger{}
	running := l.NewSet()
	l.acquire(running, "old")
	if err := running.Commit(); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("address in use")
	s := l.NewSet()
	l.acquire(s, "old")
	l.acquire(s, "a")
	l.acquire(s, "bad").fail = cause
	l.acquire(s, "never")
	err := s.Commit()
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "bad") {
		t.Errorf("got %v", err)
	}
	s.Release()
	// What failed to start and what was not started are not released; what
	// another set holds goes on.
	l.expect(t, "build old", "start old", "build a", "build bad", "build never", "start a", "start bad", "release a")

	// The next one starts it anew.
	next := l.NewSet()
	l.acquire(next, "bad")
	if err := next.Commit(); err != nil {
		t.Fatal(err)
	}
	next.Release()
	running.Release()
	l.expect(t, "build bad", "start bad", "release bad", "release old")
}

// While a set whose commit failed is not released yet, another one may hold the
// same object: it starts then.
func TestAnObjectThatFailedIsStartedByTheNextCommit(t *testing.T) {
	l := &ledger{}
	first, second := l.NewSet(), l.NewSet()
	a := l.acquire(first, "a")
	a.fail = errors.New("not yet")
	if err := first.Commit(); err == nil {
		t.Error("no error")
	}
	a.fail = nil
	if l.acquire(second, "a") != a {
		t.Error("another object")
	}
	if err := second.Commit(); err != nil {
		t.Fatal(err)
	}
	first.Release()
	second.Release()
	l.expect(t, "build a", "start a", "start a", "release a")
}

func TestAnAbandonedSetStartsAndReleasesNothing(t *testing.T) {
	l := &ledger{}
	s := l.NewSet()
	l.acquire(s, "a")
	s.Release()
	l.expect(t, "build a")
	if err := l.Idle(); err != nil {
		t.Errorf("idle: %v", err)
	}
}

func TestObjectsNeedNotStartOrEnd(t *testing.T) {
	var r Registry
	s := r.NewSet()
	if got := Acquire(s, "n", func() int { return 7 }); got != 7 {
		t.Errorf("got %d", got)
	}
	if err := s.Commit(); err != nil {
		t.Error(err)
	}
	s.Release()
}

func TestTwoTypesUnderOneIdentity(t *testing.T) {
	var r Registry
	s := r.NewSet()
	Acquire(s, "n", func() int { return 7 })
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "BUG:") || !strings.Contains(got, `"n"`) {
			t.Errorf("panicked with %q", got)
		}
		s.Release() // the lock is free again
	}()
	Acquire(s, "n", func() string { return "seven" })
}

// counted counts how often it runs at once.
type counted struct{ starts, running atomic.Int32 }

func (c *counted) Start() error {
	c.starts.Add(1)
	c.running.Add(1)
	return nil
}

func (c *counted) Release() { c.running.Add(-1) }

func TestSetsConcurrently(t *testing.T) {
	var r Registry
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var last *Set
			for i := range 200 {
				s := r.NewSet()
				shared := Acquire(s, "shared", func() *counted { return &counted{} })
				Acquire(s, fmt.Sprint("own", g, i%3), func() *counted { return &counted{} })
				if err := s.Commit(); err != nil {
					t.Error(err)
				}
				if starts, running := shared.starts.Load(), shared.running.Load(); starts != 1 || running != 1 {
					t.Errorf("started %d times, %d running", starts, running)
				}
				if last != nil {
					last.Release()
				}
				last = s
			}
			last.Release()
		})
	}
	wg.Wait()
	if err := r.Idle(); err != nil {
		t.Error(err)
	}
}

// memory is an object that lingers.
type memory struct {
	object
	wait time.Duration
}

func (m *memory) Linger() time.Duration { return m.wait }

// TestLinger: what lingers is there for a set that comes in time, and ends if none does.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		take := func(commit bool) (*Set, *memory) {
			s := l.NewSet()
			m := Acquire(s, "m", func() *memory {
				l.log = append(l.log, "build m")
				return &memory{object{name: "m", log: &l.log}, time.Minute}
			})
			if commit {
				if err := s.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			return s, m
		}
		abandoned, _ := take(false)
		abandoned.Release() // it never served: there is nothing to keep
		l.expect(t, "build m")
		s, first := take(true)
		for range 3 {
			s.Release()
			if err := l.Idle(); err != nil {
				t.Errorf("what lingers is held: %v", err)
			}
			time.Sleep(time.Minute - time.Nanosecond)
			next, m := take(true)
			if s = next; m != first {
				t.Error("it was not kept")
			}
			time.Sleep(2 * time.Minute) // it is held, and does not end
		}
		l.expect(t, "build m", "start m")
		s.Release()
		time.Sleep(time.Minute + time.Nanosecond)
		synctest.Wait()
		l.expect(t, "release m")
		s, m := take(true)
		if m == first {
			t.Error("it was kept for too long")
		}
		l.expect(t, "build m", "start m")
		s.Release()
	})
}
