package file

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 60 * time.Second
	quiet    = 50 * time.Millisecond // as of New
)

// running is a provider under test, in a directory of its own.
type running struct {
	*Provider
	t       *testing.T
	dir     string
	updates chan provider.Update
}

// start runs the provider of a file below dir. Only events tell it of changes.
func start(t *testing.T, dir, file string, edit ...func(*Provider)) *running {
	t.Helper()
	r := &running{
		Provider: New(filepath.Join(dir, file), Options{Logger: slog.New(slog.DiscardHandler), Poll: time.Hour}),
		t:        t, dir: dir, updates: make(chan provider.Update, 100),
	}
	for _, e := range edit {
		e(r.Provider)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, func(u provider.Update) { r.updates <- u }) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run goes on")
		}
	})
	return r
}

// next is the next update.
func (r *running) next() provider.Update {
	r.t.Helper()
	select {
	case u := <-r.updates:
		return u
	case <-time.After(patience):
		r.t.Fatal("no update")
		panic("unreachable")
	}
}

// nothing checks that no update is on its way: the one that it asks for comes
// first, as far as what happened before is concerned.
func (r *running) nothing() {
	r.t.Helper()
	r.Reload()
	if u := r.next(); !u.Forced {
		r.t.Errorf("an update without need: %s", text(u))
	}
}

// settle waits until everything that was done so far is seen.
func (r *running) settle() {
	r.t.Helper()
	pause(2 * r.timing.quiet)
	r.nothing()
}

// text is what an update says: the documents' names below the first one's
// directory with their content, then the problems.
func text(u provider.Update) string {
	var parts []string
	for _, d := range u.Documents {
		name, err := filepath.Rel(filepath.Dir(u.Documents[0].Name), d.Name)
		if err != nil {
			name = d.Name
		}
		parts = append(parts, name+"="+strings.TrimSpace(string(d.Data)))
	}
	for _, p := range u.Problems {
		parts = append(parts, "problem: "+p.Message)
	}
	return strings.Join(parts, " ")
}

// pause is how long someone who saves takes between two steps.
func pause(d time.Duration) { <-time.After(d) }

// The steps of saving. All take a path relative to a directory.
type save struct {
	t   *testing.T
	dir string
}

func (s save) path(name string) string { return filepath.Join(s.dir, name) }

func (s save) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s save) write(name, content string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o700))
	s.must(os.WriteFile(s.path(name), []byte(content), 0o600))
}

func (s save) rename(from, to string) { s.t.Helper(); s.must(os.Rename(s.path(from), s.path(to))) }
func (s save) remove(name string)     { s.t.Helper(); s.must(os.RemoveAll(s.path(name))) }
func (s save) mkdir(name string)      { s.t.Helper(); s.must(os.MkdirAll(s.path(name), 0o700)) }
func (s save) link(target, name string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o700))
	s.must(os.Symlink(target, s.path(name)))
}

// relink puts a link in the place of another at once, as ln -sfT and kubelet do.
func (s save) relink(target, name string) {
	s.t.Helper()
	s.link(target, name+".new")
	s.rename(name+".new", name)
}

// Every way to save leads to one update, with the new content, and to none that
// shows what was there in between.
func TestWaysToSave(t *testing.T) {
	plain := func(s save) { s.write("sluice.yaml", "a: 1") }
	conf := func(s save) {
		s.write("sluice.yaml", `include: [conf.d/*.yaml]`)
		s.write("conf.d/a.yaml", "a: 1")
	}
	const include = `sluice.yaml=include: [conf.d/*.yaml]`
	kubernetes := func(s save) {
		s.write("..2026_01/sluice.yaml", "a: 1")
		s.link("..2026_01", "..data")
		s.link("..data/sluice.yaml", "sluice.yaml")
	}
	// A test that is held up between two steps must not become the test of
	// something else, unless it waits for the grace to end.
	slowly := func(p *Provider) { p.timing.grace = patience / 2 }
	edits := map[string]func(*Provider){
		"a file no longer matches": func(*Provider) {},
		"written piece by piece":   func(p *Provider) { p.timing = timing{quiet: time.Second, longest: patience, grace: patience} },
	}
	for _, c := range []struct {
		name  string
		setup func(s save)
		save  func(s save)
		want  string
	}{
		{"written in place", plain, func(s save) { s.write("sluice.yaml", "a: 2") }, "sluice.yaml=a: 2"},
		{"renamed over", plain, func(s save) {
			s.write(".sluice.yaml.tmp", "a: 2")
			s.rename(".sluice.yaml.tmp", "sluice.yaml")
		}, "sluice.yaml=a: 2"},
		{"moved in from elsewhere", plain, func(s save) {
			s.write("tmp/x", "a: 2")
			s.rename("tmp/x", "sluice.yaml")
		}, "sluice.yaml=a: 2"},
		{"deleted and made anew", plain, func(s save) {
			s.remove("sluice.yaml")
			s.write("sluice.yaml", "a: 2")
		}, "sluice.yaml=a: 2"},
		{"deleted and made anew, slowly", plain, func(s save) {
			s.remove("sluice.yaml")
			pause(5 * quiet)
			s.write("sluice.yaml", "a: 2")
		}, "sluice.yaml=a: 2"},
		{"vim: backup, new file, backup away", plain, func(s save) {
			s.write("4913", "")
			s.remove("4913")
			s.rename("sluice.yaml", "sluice.yaml~")
			s.write("sluice.yaml", "a: 2")
			s.remove("sluice.yaml~")
		}, "sluice.yaml=a: 2"},
		{"truncated, written later", plain, func(s save) {
			s.must(os.Truncate(s.path("sluice.yaml"), 0))
			pause(5 * quiet)
			s.write("sluice.yaml", "a: 2")
		}, "sluice.yaml=a: 2"},
		{"blank for a moment", plain, func(s save) {
			s.write("sluice.yaml", " \n\t\n")
			pause(5 * quiet)
			s.write("sluice.yaml", "a: 2")
		}, "sluice.yaml=a: 2"},
		{"written piece by piece", plain, func(s save) {
			file, err := os.OpenFile(s.path("sluice.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
			s.must(err)
			defer file.Close()
			for i := range 10 {
				_, err = fmt.Fprintf(file, "a%d: %d\n", i, i)
				s.must(err)
				pause(quiet / 10)
			}
		}, "sluice.yaml=a0: 0\na1: 1\na2: 2\na3: 3\na4: 4\na5: 5\na6: 6\na7: 7\na8: 8\na9: 9"},

		{"a link's target changes", func(s save) {
			s.write("one/x.yaml", "a: 1")
			s.write("two/x.yaml", "a: 2")
			s.link("one/x.yaml", "sluice.yaml")
		}, func(s save) { s.relink("two/x.yaml", "sluice.yaml") }, "sluice.yaml=a: 2"},
		{"a link is deleted and made anew", func(s save) {
			s.write("one/x.yaml", "a: 1")
			s.write("two/x.yaml", "a: 2")
			s.link("one/x.yaml", "sluice.yaml")
		}, func(s save) {
			s.remove("sluice.yaml")
			s.link(s.path("two/x.yaml"), "sluice.yaml")
		}, "sluice.yaml=a: 2"},
		{"behind a link, written in place", func(s save) {
			s.write("one/x.yaml", "a: 1")
			s.link("one/x.yaml", "sluice.yaml")
		}, func(s save) { s.write("one/x.yaml", "a: 2") }, "sluice.yaml=a: 2"},
		{"behind a link, renamed over", func(s save) {
			s.write("one/x.yaml", "a: 1")
			s.link("one/x.yaml", "sluice.yaml")
		}, func(s save) {
			s.write("one/tmp", "a: 2")
			s.rename("one/tmp", "one/x.yaml")
		}, "sluice.yaml=a: 2"},
		{"the middle one of three links changes", func(s save) {
			s.write("one/x.yaml", "a: 1")
			s.write("two/x.yaml", "a: 2")
			s.link("../one", "links/dir")
			s.link("dir/../links/dir/x.yaml", "links/file")
			s.link("links/file", "sluice.yaml")
		}, func(s save) { s.relink("../two", "links/dir") }, "sluice.yaml=a: 2"},
		{"a link to nowhere gets its target", func(s save) {
			s.write("sluice.yaml", "include: [x.yaml]")
			s.write("one/y.yaml", "a: 1")
			s.link("one/x.yaml", "x.yaml")
		}, func(s save) { s.rename("one/y.yaml", "one/x.yaml") }, "sluice.yaml=include: [x.yaml] x.yaml=a: 1"},
		{"Kubernetes: ..data is swapped", kubernetes, func(s save) {
			s.write("..2026_02/sluice.yaml", "a: 2")
			s.link("..2026_02", "..data_tmp")
			s.rename("..data_tmp", "..data")
			s.remove("..2026_01")
		}, "sluice.yaml=a: 2"},
		{"the directory is removed and made anew", func(s save) {
			s.write("sluice.yaml", "include: [deep/er/x.yaml]")
			s.write("deep/er/x.yaml", "a: 1")
		}, func(s save) {
			s.remove("deep")
			pause(2 * quiet)
			s.mkdir("deep")
			pause(2 * quiet)
			s.write("deep/er/x.yaml", "a: 2")
		}, "sluice.yaml=include: [deep/er/x.yaml] deep/er/x.yaml=a: 2"},
		{"another directory takes the place", func(s save) {
			s.write("sluice.yaml", "include: [one/x.yaml]")
			s.write("one/x.yaml", "a: 1")
			s.write("two/x.yaml", "a: 2")
		}, func(s save) {
			s.rename("one", "old")
			s.rename("two", "one")
		}, "sluice.yaml=include: [one/x.yaml] one/x.yaml=a: 2"},

		{"an included file changes", conf, func(s save) { s.write("conf.d/a.yaml", "a: 2") }, include + " conf.d/a.yaml=a: 2"},
		{"a file comes to match and is written later", conf, func(s save) {
			s.write("conf.d/b.yaml", "")
			pause(5 * quiet)
			s.write("conf.d/b.yaml", "b: 1")
		}, include + " conf.d/a.yaml=a: 1 conf.d/b.yaml=b: 1"},
		{"a link comes before its target", conf, func(s save) {
			s.link(s.path("b"), "conf.d/b.yaml")
			pause(5 * quiet)
			s.write("b", "b: 1")
		}, include + " conf.d/a.yaml=a: 1 conf.d/b.yaml=b: 1"},
		{"a file comes to match", conf, func(s save) { s.write("conf.d/b.yaml", "b: 1") }, include + " conf.d/a.yaml=a: 1 conf.d/b.yaml=b: 1"},
		{"a file is moved to match", conf, func(s save) {
			s.write("b", "b: 1")
			s.rename("b", "conf.d/b.yaml")
		}, include + " conf.d/a.yaml=a: 1 conf.d/b.yaml=b: 1"},
		{"a file no longer matches", conf, func(s save) { s.rename("conf.d/a.yaml", "conf.d/a.off") }, include},
		{"an included file, as vim saves", conf, func(s save) {
			s.rename("conf.d/a.yaml", "conf.d/a.yaml~")
			pause(3 * quiet)
			s.write("conf.d/a.yaml", "a: 2")
			s.remove("conf.d/a.yaml~")
		}, include + " conf.d/a.yaml=a: 2"},
		{"an included file, as Emacs saves", conf, func(s save) {
			s.link("ann@host.123:456", "conf.d/.#a.yaml") // its lock, while there is something to save
			s.write("conf.d/#a.yaml#", "a: 15")
			pause(5 * quiet)
			s.rename("conf.d/a.yaml", "conf.d/a.yaml~")
			s.write("conf.d/a.yaml", "a: 2")
			s.remove("conf.d/.#a.yaml")
			s.remove("conf.d/#a.yaml#")
		}, include + " conf.d/a.yaml=a: 2"},
		{"the directory of a pattern comes later", func(s save) { s.write("sluice.yaml", "include: [conf.d/*.yaml]") }, func(s save) {
			s.mkdir("conf.d")
			pause(2 * quiet)
			s.write("conf.d/a.yaml", "a: 1")
		}, include + " conf.d/a.yaml=a: 1"},
		{"the directory of a pattern comes with its files", func(s save) {
			s.write("sluice.yaml", "include: [conf.d/*.yaml]")
			s.write("later/a.yaml", "a: 1")
		}, func(s save) { s.rename("later", "conf.d") }, include + " conf.d/a.yaml=a: 1"},
		{"a pattern of directories", func(s save) {
			s.write("sluice.yaml", "include: [sites/*/x.yaml]")
			s.mkdir("sites/one")
		}, func(s save) { s.write("sites/one/x.yaml", "a: 1") }, "sluice.yaml=include: [sites/*/x.yaml] sites/one/x.yaml=a: 1"},
		{"a pattern of directories gets another one", func(s save) {
			s.write("sluice.yaml", "include: [sites/*/x.yaml]")
			s.write("sites/one/x.yaml", "a: 1")
		}, func(s save) {
			s.mkdir("sites/two")
			pause(2 * quiet)
			s.write("sites/two/x.yaml", "b: 1")
		}, "sluice.yaml=include: [sites/*/x.yaml] sites/one/x.yaml=a: 1 sites/two/x.yaml=b: 1"},
		{"a pattern behind a link", func(s save) {
			s.write("sluice.yaml", "include: [conf.d/*.yaml]")
			s.write("one/a.yaml", "a: 1")
			s.write("two/a.yaml", "a: 2")
			s.link("one", "conf.d")
		}, func(s save) { s.relink("two", "conf.d") }, include + " conf.d/a.yaml=a: 2"},
		{"another file is included", func(s save) {
			s.write("sluice.yaml", "include: [a.yaml]")
			s.write("a.yaml", "a: 1")
			s.write("b.yaml", "b: 1")
		}, func(s save) { s.write("sluice.yaml", "include: [b.yaml]") }, "sluice.yaml=include: [b.yaml] b.yaml=b: 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := save{t, t.TempDir()}
			c.setup(s)
			edit := edits[c.name]
			if edit == nil {
				edit = slowly
			}
			r := start(t, s.dir, "sluice.yaml", edit)
			r.next()
			r.settle()
			c.save(s)
			u := r.next()
			if got := text(u); got != c.want || u.Forced || u.Source != "file" {
				t.Errorf("got  %+v\nwant %s", u, c.want)
			}
			r.settle()
			// It goes on to be watched where it is now.
			s.write("sluice.yaml", "z: 1")
			if got := text(r.next()); got != "sluice.yaml=z: 1" {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

func TestNothingChanged(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "a: 1")
	r := start(t, s.dir, "sluice.yaml")
	if got := text(r.next()); got != "sluice.yaml=a: 1" {
		t.Fatal(got)
	}
	s.write("sluice.yaml", "a: 1")
	s.write("other.yaml", "b: 1")
	s.must(os.Chtimes(s.path("sluice.yaml"), time.Now(), time.Now()))
	r.settle()
}

func TestFileThatIsMissingAtFirst(t *testing.T) {
	s := save{t, t.TempDir()}
	r := start(t, s.dir, "conf/sluice.yaml")
	u := r.next()
	if len(u.Documents) != 0 || len(u.Problems) != 1 || !strings.Contains(text(u), "does not exist") {
		t.Errorf("got %s", text(u))
	}
	s.write("conf/sluice.yaml", "a: 1")
	if got := text(r.next()); got != "sluice.yaml=a: 1" {
		t.Errorf("got %s", got)
	}
}

func TestFileThatIsGoneForGood(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s save)
		want string
	}{
		{"removed", func(s save) { s.remove("sluice.yaml") }, "does not exist"},
		{"emptied", func(s save) { s.write("sluice.yaml", "\n") }, "empty"},
		{"a directory", func(s save) { s.remove("sluice.yaml"); s.mkdir("sluice.yaml") }, "directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := save{t, t.TempDir()}
			s.write("sluice.yaml", "a: 1")
			r := start(t, s.dir, "sluice.yaml")
			r.next()
			c.do(s)
			if u := r.next(); len(u.Problems) != 1 || !strings.Contains(u.Problems[0].Message, c.want) {
				t.Errorf("got %s", text(u))
			}
			s.remove("sluice.yaml")
			s.write("sluice.yaml", "a: 1") // as it was
			for {                          // the removal may be told, too
				if u := r.next(); len(u.Problems) == 0 {
					if got := text(u); got != "sluice.yaml=a: 1" {
						t.Errorf("got %s", got)
					}
					break
				}
			}
		})
	}
}

func TestReload(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "a: 1")
	r := start(t, s.dir, "sluice.yaml")
	if u := r.next(); u.Forced {
		t.Error("the first update is forced")
	}
	r.Reload()
	if u := r.next(); !u.Forced || text(u) != "sluice.yaml=a: 1" {
		t.Errorf("got %+v", u)
	}
	// It does not wait for a file that is gone.
	s.remove("sluice.yaml")
	r.Reload()
	if u := r.next(); !u.Forced || len(u.Problems) != 1 {
		t.Errorf("got %+v", u)
	}
}

func TestReloadBeforeRunAndManyTimes(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "a: 1")
	r := start(t, s.dir, "sluice.yaml", func(p *Provider) {
		for range 100 {
			p.Reload()
		}
	})
	if first, second := r.next(), r.next(); first.Forced || !second.Forced {
		t.Errorf("got %v, %v", first.Forced, second.Forced)
	}
	r.nothing()
}

// On a file system that tells nothing, or where the system has no watcher to
// give, comparing does it.
func TestPolling(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "include: [conf.d/*.yaml]")
	r := start(t, s.dir, "sluice.yaml", func(p *Provider) {
		p.options.Poll = 5 * time.Millisecond
		p.open = noWatcher
	})
	r.next()
	s.write("conf.d/a.yaml", "a: 1")
	if got := text(r.next()); got != "sluice.yaml=include: [conf.d/*.yaml] conf.d/a.yaml=a: 1" {
		t.Errorf("got %s", got)
	}
	secret := s.path("secret")
	s.write("secret", "x")
	s.must(os.Chtimes(secret, time.Time{}, time.Unix(1, 0)))
	r.Watch([]string{secret})
	s.write("sluice.yaml", "b: 1")
	if got := text(r.next()); got != "sluice.yaml=b: 1" {
		t.Errorf("got %s", got)
	}
	s.write("secret", "y")
	if got := text(r.next()); got != "sluice.yaml=b: 1" {
		t.Errorf("got %s", got)
	}
}

func TestRunEndsWhileItWaits(t *testing.T) {
	s := save{t, t.TempDir()}
	s.write("sluice.yaml", "a: 1")
	r := start(t, s.dir, "sluice.yaml")
	r.next()
	s.remove("sluice.yaml") // the cleanup ends Run within the grace
}
