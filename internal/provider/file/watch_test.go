package file

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/provider"
)

func noWatcher() (*fsnotify.Watcher, error) { return nil, errors.New("none left") }

// old makes a file look as if it was there long before.
func (s save) old(name string) {
	s.t.Helper()
	s.must(os.Chtimes(s.path(name), time.Time{}, time.Unix(1, 0)))
}

func TestWatch(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "a: 1")
	s.write("one/secret", "x")
	s.write("two/secret", "y")
	s.link("one", "..data")
	s.write("later", "1")
	for _, name := range []string{"one/secret", "two/secret", "later"} {
		s.old(name)
	}
	r := start(t, s.dir, "sluice.yaml")
	first := r.next()
	r.Watch([]string{s.path("..data/secret"), s.path("none/secret")})
	r.settle()

	same := func() {
		t.Helper()
		if u := r.next(); u.Forced || text(u) != text(first) {
			t.Errorf("got %+v", u)
		}
		r.settle()
	}
	s.write("one/secret", "z")
	same()
	s.relink("two", "..data")
	same()
	s.write("none/secret", "new")
	same()
	s.remove("two/secret") // told after the grace
	same()
	s.write("two/secret", "y")
	same()

	r.Watch([]string{s.path("later")})
	r.settle()
	s.write("one/secret", "no longer watched")
	s.write("none/secret", "no longer watched")
	r.settle()
	s.write("later", "2")
	same()
}

// A path that looks like a pattern is a path where it is given to Watch.
func TestWatchTakesNoPatterns(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "a: 1")
	s.write("a", "1")
	s.old("a")
	r := start(t, s.dir, "sluice.yaml")
	r.next()
	r.Watch([]string{s.path("*")})
	r.settle()
	s.write("b", "1")
	r.settle()
	s.write("*", "1")
	r.next()
}

// What changes after a load and before Watch must not be missed: nobody can say
// which of the two was read.
func TestWatchOfAFileThatJustChanged(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "a: 1")
	s.write("secret", "x")
	s.old("secret")
	updates := make(chan provider.Update, 10)
	p := New(s.path("sluice.yaml"), Options{Logger: slog.New(slog.DiscardHandler), Poll: time.Hour})
	calls := 0
	r := &running{Provider: p, t: t, dir: s.dir, updates: updates}
	ended := make(chan error, 1)
	go func() {
		ended <- p.Run(t.Context(), func(u provider.Update) {
			if calls++; calls == 1 {
				s.write("secret", "y")
			}
			p.Watch([]string{s.path("secret")}) // from within: must not lock up
			updates <- u
		})
	}()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	r.next()
	if u := r.next(); u.Forced {
		t.Errorf("got %+v", u)
	}
	r.settle()
}

// Whatever changes while the files are read is read again.
func TestChangeDuringALoad(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "a: 1")
	loads := 0
	r := start(t, s.dir, "sluice.yaml", func(p *Provider) {
		p.load = func(file string) ([]config.Document, []string, []model.Problem) {
			documents, watch, problems := config.Load(file)
			if loads++; loads == 1 {
				s.write("sluice.yaml", "a: 2")
			}
			return documents, watch, problems
		}
	})
	if got := text(r.next()); got != "sluice.yaml=a: 1" {
		t.Errorf("got %s", got)
	}
	if got := text(r.next()); got != "sluice.yaml=a: 2" {
		t.Errorf("got %s", got)
	}
}

// Includes that differ at every load are no reason to load for ever.
func TestIncludesThatNeverSettle(t *testing.T) {
	loads := 0
	r := start(t, t.TempDir(), "sluice.yaml", func(p *Provider) {
		p.load = func(file string) ([]config.Document, []string, []model.Problem) {
			loads++
			return nil, []string{file, strings.Repeat("x", loads)}, nil
		}
	})
	r.next()
	r.nothing()
}

// A pipe has no second reading, and one that nobody writes to no first: it is
// told, whether it is the file, an included one or where a value is.
func TestAPipe(t *testing.T) {
	s := save{t, t.TempDir()}
	s.must(syscall.Mkfifo(s.path("pipe"), 0o600))
	s.write("sluice.yaml", "include: [pipe]")
	for file, want := range map[string]string{"pipe": "this is a pipe, not a regular file", "sluice.yaml": "cannot be included: this is a pipe"} {
		r := start(t, s.dir, file)
		r.Watch([]string{s.path("pipe")})
		if u := r.next(); len(u.Problems) != 1 || !strings.Contains(u.Problems[0].Message, want) {
			t.Errorf("%s: got %s", file, text(u))
		}
		r.nothing()
	}
}

func TestBusyDirectory(t *testing.T) {
	w := &watcher{dirs: map[string]*interest{}}
	w.in("/etc/sluice").names["sluice.yaml"] = true
	w.in("/etc/sluice").patterns = []string{"*.yml", "["}
	for name, want := range map[string]bool{
		"/etc/sluice/sluice.yaml": true, "/etc/sluice/a.yml": true, "/etc/sluice": true,
		"/etc/sluice/access.log": false, "/etc/a.yml": false, "": false, "/etc/sluice/deep/a.yml": false,
	} {
		if got := w.concerns(fsnotify.Event{Name: name, Op: fsnotify.Write}); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestLinksInACircle(t *testing.T) {
	s := save{t, t.TempDir()}
	s.link("b", "a")
	s.link("a", "b")
	s.link("deep", "deep/deep")
	w := &watcher{dirs: map[string]*interest{}}
	if end, ok := w.trace(s.path("a")); ok {
		t.Errorf("a circle leads to %s", end)
	}
	if end, ok := w.trace(s.path("none/../deep/x")); ok {
		t.Errorf("a missing file is at %s", end)
	}
	r := start(t, s.dir, "a")
	if u := r.next(); len(u.Problems) != 1 {
		t.Errorf("got %s", text(u))
	}
	s.remove("a")
	s.write("a", "a: 1")
	if got := text(r.next()); got != "a=a: 1" {
		t.Errorf("got %s", got)
	}
}

func TestTraceLeadsWhereTheSystemDoes(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("one/two/file", "")
	s.link("one/two", "short")
	s.link(s.dir+"/short/..", "up") // not cleaned: it leads to one
	s.link("../up/./two//file", "one/link")
	for _, path := range []string{"one/two/file", "short/file", "up/two/file", "one/link", "short/", "up/link", "."} {
		want, err := filepath.EvalSymlinks(s.path(path))
		s.must(err)
		w := &watcher{dirs: map[string]*interest{}}
		if got, ok := w.trace(s.path(path)); !ok || got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestWatcherTellsOnce(t *testing.T) {
	var out strings.Builder
	w := newWatcher(slog.New(slog.NewTextHandler(&out, nil)), noWatcher)
	w.tell("/x", errors.New("again"))
	w.close()
	if w.events() != nil || w.errors() != nil {
		t.Error("events without a watcher")
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "none left") {
		t.Errorf("told %q", got)
	}
}

// Should the system end the events, polling goes on.
func TestEventsThatEnd(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "a: 1")
	opened := make(chan *fsnotify.Watcher, 1)
	r := start(t, s.dir, "sluice.yaml", func(p *Provider) {
		p.options.Poll = 5 * time.Millisecond
		p.open = func() (*fsnotify.Watcher, error) {
			w, err := fsnotify.NewWatcher()
			opened <- w
			return w, err
		}
	})
	r.next()
	s.must((<-opened).Close())
	s.write("new", "a: 2")
	s.rename("new", "sluice.yaml")
	if got := text(r.next()); got != "sluice.yaml=a: 2" {
		t.Errorf("got %s", got)
	}
}

func TestImprints(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("full", "x")
	s.write("blank", " \n")
	paths := []string{s.path("full"), s.path("blank"), s.path("none")}
	before := printFiles(paths)
	check := func(what string, now imprints, equal, unsettled bool) {
		t.Helper()
		if now.equal(before) != equal || before.equal(now) != equal {
			t.Errorf("%s: equal is %v", what, !equal)
		}
		if now.unsettled(before) != unsettled {
			t.Errorf("%s: unsettled is %v", what, !unsettled)
		}
	}
	check("nothing changed", printFiles(paths), true, false)
	check("a blank path less", printFiles([]string{s.path("full"), s.path("none")}), false, false)
	check("a path less", printFiles([]string{s.path("blank"), s.path("none")}), false, true)
	check("a missing path more", printFiles(append(paths, s.path("other"))), false, true)
	s.write("blank", "y")
	check("no longer blank", printFiles(paths), false, false)
	s.write("none", "")
	check("made, and not written", printFiles(paths), false, true)
	s.write("none", "z")
	check("made", printFiles(paths), false, false)
	s.write("full", "\t")
	check("emptied", printFiles(paths), false, true)
	s.remove("full")
	check("gone", printFiles(paths), false, true)
	if got := printAll([]string{s.path("*"), s.path("[")}); len(got) != 4 {
		t.Errorf("%d paths", len(got))
	}
}
