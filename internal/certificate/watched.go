package certificate

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/pemfile"
	"sluice/internal/regularfile"
)

const (
	// longest bounds how long files are waited for that change all the time.
	longest = time.Second
	// grace is how long files may make no pair before that is told: they are
	// written one after the other.
	grace = 3 * time.Second
	// coarse is how much a file's time may lag behind its last change, on file
	// systems that count whole seconds or more; until then a file is read, not
	// only looked at.
	coarse = 3 * time.Second
	// readEvery is how often a file is read although it seems unchanged.
	readEvery = 30 * time.Second
	// endsSoon is how long before its end a certificate is warned of.
	endsSoon = 7 * 24 * time.Hour
)

// watched is a value that is made of files, and made anew when they change. What
// the files are is judged by their content: it does not matter how they are saved,
// what their times say, or through how many links they are reached.
//
// New content is taken once it was the same at two looks, so that no half of a
// chain is. Content that makes no value leaves the one there is.
type watched[T any] struct {
	watch *watch
	log   *slog.Logger
	kind  string
	paths []string
	parse func(contents [][]byte) (*T, *pemfile.Fault)
	leaf  func(*T) *x509.Certificate // whose end is told of; nil: nothing's

	current atomic.Pointer[T] // nil until the files made one

	mu     sync.Mutex // of what status tells
	loaded time.Time
	fault  string
	since  time.Time // of fault

	// Of one goroutine at a time: who builds and starts it, then the watch.
	seen     imprint   // what the files were at the last look
	shown    imprint   // what current was made of
	tried    imprint   // what made no value
	changing bool      // seen is new, and is to be seen once more
	began    time.Time // changing
	stamps   []stamp
	read     time.Time // when the files were last read
	told     string    // the last fault that was
	ending   int       // how much of the end of current was told
}

// imprint is what files hold.
type imprint [sha256.Size]byte

// stamp is what a file looks like from outside.
type stamp struct {
	info fs.FileInfo // nil: it cannot be looked at
	err  string
}

// begin reads the files for the first time.
func (w *watched[T]) begin(now time.Time) {
	contents, err := w.readAll(now)
	w.shown = imprint{}
	w.take(contents, err, now)
}

// Start begins to watch. It fails if the files have made no value yet, and make
// none now. It is for the registry of leases.
func (w *watched[T]) Start() error {
	if w.current.Load() == nil {
		w.begin(time.Now())
	}
	if w.current.Load() == nil {
		return errors.New(w.status().Error)
	}
	w.watch.add(w)
	return nil
}

// Release ends watching. The value stays for those who still have it.
func (w *watched[T]) Release() { w.watch.remove(w) }

// look takes up what has changed. again asks for another look in a moment.
func (w *watched[T]) look(now time.Time) (changed, again bool) {
	if w.changing || w.altered(now) {
		changed, again = w.compare(now)
	}
	w.tell(now)
	return changed, again
}

func (w *watched[T]) compare(now time.Time) (changed, again bool) {
	before := w.seen
	contents, err := w.readAll(now)
	switch {
	case w.seen == w.shown:
		w.changing = false
		w.restore()
		return false, false
	case w.seen == w.tried:
		w.changing = false
		return false, false
	case !w.changing:
		w.changing, w.began = true, now
		return false, true
	case w.seen != before && now.Sub(w.began) < longest:
		return false, true
	}
	changed = w.take(contents, err, now)
	w.changing = !changed && w.seen != before // it may make one at any moment
	return changed, w.changing
}

// take makes the value of what was read, if it can be made.
func (w *watched[T]) take(contents [][]byte, err error, now time.Time) bool {
	var value *T
	if err == nil {
		var fault *pemfile.Fault
		if value, fault = w.parse(contents); fault != nil {
			err = at(fault, w.paths...)
		}
	}
	if err != nil {
		w.tried = w.seen
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.fault == "" {
			w.since = now
		}
		w.fault = err.Error()
		return false
	}
	first := w.current.Swap(value) == nil
	w.shown, w.tried, w.told, w.ending = w.seen, imprint{}, "", 0
	w.mu.Lock()
	w.loaded, w.fault, w.since = now, "", time.Time{}
	w.mu.Unlock()
	if !first {
		attributes := []any{"kind", w.kind, "file", w.paths[0]}
		if w.leaf != nil {
			attributes = append(attributes, "name", pemfile.Title(w.leaf(value)), "not_after", w.leaf(value).NotAfter.UTC())
		}
		w.log.Info("TLS files changed", attributes...)
	}
	return true
}

// restore forgets a fault, since the files are again what the value was made of.
func (w *watched[T]) restore() {
	w.mu.Lock()
	fault := w.fault
	w.fault, w.since = "", time.Time{}
	w.mu.Unlock()
	w.tried = imprint{}
	if fault != "" && w.told != "" {
		w.log.Info("TLS files are again what is shown", "kind", w.kind, "file", w.paths[0])
	}
	w.told = ""
}

// tell tells of a fault that lasts, and of the end of the certificate, each once.
func (w *watched[T]) tell(now time.Time) {
	if status := w.status(); status.Error != "" && status.Error != w.told && now.Sub(status.Since) >= grace {
		w.told = status.Error
		w.log.Warn("TLS files cannot be taken up; what was there before is shown", "kind", w.kind, "error", status.Error)
	}
	if w.leaf == nil {
		return
	}
	end := w.leaf(w.current.Load()).NotAfter
	switch {
	case now.After(end) && w.ending < 2:
		w.ending = 2
		w.log.Warn("certificate has expired", "file", w.paths[0], "not_after", end.UTC())
	case end.Sub(now) < endsSoon && w.ending < 1:
		w.ending = 1
		w.log.Warn("certificate expires soon", "file", w.paths[0], "not_after", end.UTC())
	}
}

func (w *watched[T]) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	status := Status{Kind: w.kind, Cert: w.paths[0], Loaded: w.loaded, Error: w.fault, Since: w.since}
	if len(w.paths) > 1 {
		status.Key = w.paths[1]
	}
	return status
}

// altered tells whether the files may hold something else than at the last look.
func (w *watched[T]) altered(now time.Time) bool {
	if now.Sub(w.read) >= readEvery {
		return true
	}
	for i, path := range w.paths {
		before, after := w.stamps[i], newStamp(path)
		switch {
		case before.info == nil || after.info == nil:
			if before.err != after.err {
				return true
			}
		case !regularfile.Same(before.info, after.info):
			return true
		case w.read.Sub(after.info.ModTime()) < coarse:
			return true // it may have changed since, within the same tick of its clock
		}
	}
	return false
}

func newStamp(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{err: err.Error()}
	}
	return stamp{info: info}
}

// readAll reads the files and notes what they are. It looks at them first, so
// that a change in between is seen by the next look.
func (w *watched[T]) readAll(now time.Time) (contents [][]byte, err error) {
	w.read = now
	w.stamps = w.stamps[:0]
	for _, path := range w.paths {
		w.stamps = append(w.stamps, newStamp(path))
	}
	sum := sha256.New()
	for _, path := range w.paths {
		data, failure := read(path)
		if failure != nil {
			data = []byte(failure.Error())
			if err == nil {
				err = failure
			}
		}
		part := sha256.Sum256(data)
		sum.Write(part[:])
		contents = append(contents, data)
	}
	w.seen = imprint(sum.Sum(nil))
	return contents, err
}
