package file

import (
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"

	"sluice/internal/config"
)

// watcher watches the directories in which a change can alter what some paths
// lead to: those of the files, and of every symbolic link on the way. Files are
// not watched themselves, since most ways to save put another file in place.
type watcher struct {
	logger *slog.Logger
	notify *fsnotify.Watcher // nil: the system has none to give
	dirs   map[string]*interest
	told   bool
}

// interest is what matters in one directory.
type interest struct {
	names    map[string]bool
	patterns []string
}

func newWatcher(logger *slog.Logger, open func() (*fsnotify.Watcher, error)) *watcher {
	w := &watcher{logger: logger}
	notify, err := open()
	if err != nil {
		w.tell("", err)
		return w
	}
	w.notify = notify
	return w
}

// close ends what the system does for the watcher.
func (w *watcher) close() {
	if w.notify == nil {
		return
	}
	if err := w.notify.Close(); err != nil {
		w.logger.Warn("watching files not ended", "error", err)
	}
}

// end gives up on events, which have ended by themselves.
func (w *watcher) end() {
	w.tell("", fsnotify.ErrClosed)
	w.close()
	w.notify = nil
}

// tell tells once that polling has to do.
func (w *watcher) tell(dir string, err error) {
	if !w.told {
		w.told = true
		w.logger.Warn("file changes are found by polling only", "directory", dir, "error", err)
	}
}

// events may be nil, from which nothing ever comes.
func (w *watcher) events() <-chan fsnotify.Event {
	if w.notify == nil {
		return nil
	}
	return w.notify.Events
}

func (w *watcher) errors() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}

// concerns tells whether an event may alter what the paths lead to.
func (w *watcher) concerns(event fsnotify.Event) bool {
	if w.dirs[event.Name] != nil { // the directory itself went or changed
		return true
	}
	dir := w.dirs[filepath.Dir(event.Name)]
	if dir == nil {
		return false
	}
	base := filepath.Base(event.Name)
	return dir.names[base] || slices.ContainsFunc(dir.patterns, func(pattern string) bool {
		match, err := filepath.Match(pattern, base)
		return match && err == nil
	})
}

// follow watches for the paths, which may be patterns, and plain files, instead
// of what it watched for before. It tells whether a directory is new.
func (w *watcher) follow(paths, files []string) (grew bool) {
	w.dirs = map[string]*interest{}
	for _, path := range paths {
		w.trace(path)
		if hasMeta(path) {
			w.tracePattern(path)
		}
	}
	for _, path := range files {
		w.trace(path)
	}
	if w.notify == nil {
		return false
	}
	before := w.notify.WatchList()
	for _, dir := range before {
		if w.dirs[dir] == nil {
			_ = w.notify.Remove(dir) // it fails for one that is gone, which is as good
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(w.dirs)) {
		// Also what is watched already: another directory may be in its place.
		if err := w.notify.Add(dir); err != nil {
			if !os.IsNotExist(err) { // else it went just now; its parent tells of it
				w.tell(dir, err)
			}
			continue
		}
		grew = grew || !slices.Contains(before, dir)
	}
	return grew
}

func (w *watcher) in(dir string) *interest {
	if w.dirs[dir] == nil {
		w.dirs[dir] = &interest{names: map[string]bool{}}
	}
	return w.dirs[dir]
}

// trace notes every place where the way to a path can change, and returns where
// it leads, without links. Where the way ends early, the first name that is
// missing is noted.
func (w *watcher) trace(path string) (end string, ok bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", false
	}
	dir := filepath.VolumeName(path) + string(filepath.Separator)
	rest := split(path[len(filepath.VolumeName(path)):])
	const most = 40 // links, as the system follows
	links := 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			dir = filepath.Dir(dir) // dir has no links, so this is where it leads
			continue
		}
		full := filepath.Join(dir, name)
		info, err := os.Lstat(full)
		if err != nil {
			w.in(dir).names[name] = true
			return "", false
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			w.in(dir).names[name] = true
			target, err := os.Readlink(full)
			if links++; err != nil || links > most {
				return "", false
			}
			if filepath.IsAbs(target) {
				dir = filepath.VolumeName(target) + string(filepath.Separator)
				target = target[len(filepath.VolumeName(target)):]
			}
			rest = append(split(target), rest...)
			continue
		}
		if len(rest) == 0 {
			w.in(dir).names[name] = true
		}
		dir = full
	}
	return dir, true
}

// tracePattern notes where something that matches a pattern can come to be.
func (w *watcher) tracePattern(pattern string) {
	pattern, err := filepath.Abs(pattern)
	if err != nil {
		return
	}
	for dir := pattern; ; {
		parent, base := filepath.Dir(dir), filepath.Base(dir)
		if hasMeta(base) || hasMeta(parent) {
			parents := []string{parent}
			if hasMeta(parent) {
				matches, err := config.Glob(parent)
				if err != nil {
					return // the loader tells of a bad pattern
				}
				parents = matches
			}
			for _, p := range parents {
				w.traceDirectory(p, base)
			}
		}
		if parent == dir {
			return
		}
		dir = parent
	}
}

// traceDirectory notes a directory in which names that match base matter.
func (w *watcher) traceDirectory(path, base string) {
	end, ok := w.trace(path)
	if !ok {
		return
	}
	if info, err := os.Stat(end); err == nil && info.IsDir() {
		w.in(end).patterns = append(w.in(end).patterns, base)
	}
}

func split(path string) (names []string) {
	for name := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// hasMeta tells whether a path may be a pattern (filepath.Match).
func hasMeta(path string) bool {
	if filepath.Separator == '\\' {
		return strings.ContainsAny(path, "*?[")
	}
	return strings.ContainsAny(path, `*?[\`)
}
