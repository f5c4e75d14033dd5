// Package file is the provider of the configuration file and the files that it
// includes. It reads them again whenever one is saved, in whatever way editors,
// deployment tools and Kubernetes save. It does not look into documents; package
// config does.
package file

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/provider"
)

const (
	// defaultPoll is how often files are compared on file systems that tell
	// nothing.
	defaultPoll = 2 * time.Second
	// clockStep is how much a file's time may lag behind the clock.
	clockStep = 20 * time.Millisecond
)

// timing is how long a provider waits for whoever saves: a save is several
// steps.
type timing struct {
	quiet   time.Duration // nothing must happen for so long before files are read
	longest time.Duration // bounds the wait for quiet
	grace   time.Duration // a file may be gone or empty for so long before that is told
}

// Options are what a provider needs besides its file.
type Options struct {
	// Logger is told where changes cannot be watched. Never nil.
	Logger *slog.Logger
	// Poll is how often files are compared in case that a change was not
	// noticed; 0: 2 s.
	Poll time.Duration
}

// Provider reads one file and what it includes.
type Provider struct {
	file    string
	options Options
	timing  timing
	load    func(file string) ([]config.Document, []string, []model.Problem)
	open    func() (*fsnotify.Watcher, error)

	forced chan struct{} // Reload was called
	more   chan struct{} // Watch was called

	mu    sync.Mutex
	extra []string // given to Watch

	// Of Run alone:
	watcher *watcher
	paths   []string // files and patterns that the last load depended on
	seen    imprints // what they were then
	files   []string // the extra files, as of the last look at what Watch named
	extras  imprints // what they were
	sent    [sha256.Size]byte
	loaded  time.Time // when the last load began
	missing time.Time // since when something is gone or empty; zero: nothing is
	timer   *time.Timer
	first   time.Time // of the events that wait for quiet; zero: none
}

var _ provider.Provider = (*Provider)(nil)

// New returns the provider of a file, which may be missing. Nothing is read or
// watched until Run.
func New(file string, options Options) *Provider {
	if options.Poll == 0 {
		options.Poll = defaultPoll
	}
	return &Provider{
		file:    file,
		options: options,
		timing:  timing{quiet: 50 * time.Millisecond, longest: time.Second, grace: time.Second},
		load:    config.Load,
		open:    fsnotify.NewWatcher,
		forced:  make(chan struct{}, 1),
		more:    make(chan struct{}, 1),
		paths:   []string{file},
	}
}

// Name is "file".
func (p *Provider) Name() string { return config.FileProvider }

// Reload asks for an update, even if nothing changed. Several calls before it
// comes are one.
func (p *Provider) Reload() { notify(p.forced) }

// Watch names the files, besides the documents, that values were taken from; it
// replaces those named before. A change in one causes an update. It may be
// called by the function that takes updates.
func (p *Provider) Watch(files []string) {
	p.mu.Lock()
	p.extra = slices.Clone(files)
	p.mu.Unlock()
	notify(p.more)
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run reads the file at once, and then whenever it changes, until ctx ends.
// Nothing that happens to the file ends it: that is told as problems.
func (p *Provider) Run(ctx context.Context, out func(provider.Update)) error {
	p.watcher = newWatcher(p.options.Logger, p.open)
	defer p.watcher.close()
	poll := time.NewTicker(p.options.Poll)
	defer poll.Stop()
	p.timer = time.NewTimer(0)
	p.timer.Stop()
	defer p.timer.Stop()

	p.update(out, false, true)
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-p.watcher.events():
			if !ok || p.watcher.concerns(event) {
				p.wait()
			}
			if !ok {
				p.watcher.end()
			}
		case err := <-p.watcher.errors():
			p.options.Logger.Debug("file events were lost", "error", err)
			p.wait()
		case <-p.timer.C:
			p.first = time.Time{}
			p.check(out)
		case <-poll.C:
			if p.first.IsZero() { // else the timer looks soon, once it is quiet
				p.check(out)
			}
		case <-p.more:
			p.watchMore(out)
		case <-p.forced:
			p.update(out, true, true)
		}
	}
}

// wait has the files looked at when it is quiet.
func (p *Provider) wait() {
	now := time.Now()
	if p.first.IsZero() {
		p.first = now
	}
	p.timer.Reset(min(p.timing.quiet, p.timing.longest-now.Sub(p.first)))
}

// check reads the files if any is not what it was.
func (p *Provider) check(out func(provider.Update)) {
	now, extras := printAll(p.paths), printFiles(p.files)
	changed := !extras.equal(p.extras)
	if !changed && now.equal(p.seen) {
		p.missing = time.Time{}
		p.watch()
		return
	}
	if now.unsettled(p.seen) || extras.unsettled(p.extras) {
		if p.missing.IsZero() {
			p.missing = time.Now()
		}
		if time.Since(p.missing) < p.timing.grace {
			p.watch() // it may come back elsewhere
			p.wait()
			return
		}
	}
	p.update(out, false, changed)
}

// update reads the files, and passes on what they are if that is news or must
// be told.
func (p *Provider) update(out func(provider.Update), forced, tell bool) {
	p.missing = time.Time{}
	documents, problems := p.read()
	sum := summary(documents, problems)
	p.watch()
	if !tell && sum == p.sent {
		return
	}
	p.sent = sum
	out(provider.Update{Source: p.Name(), Documents: documents, Problems: problems, Forced: forced})
}

// read loads the documents. What the files were is taken down before they are
// read, so that a change in between is seen by the next check; hence again if
// it turns out that they depend on other files.
func (p *Provider) read() (documents []config.Document, problems []model.Problem) {
	p.files = p.named()
	p.extras = printFiles(p.files)
	const tries = 5 // includes that change each time are read by the next check
	for range tries {
		p.loaded = time.Now()
		p.seen = printAll(p.paths)
		var paths []string
		documents, paths, problems = p.load(p.file)
		if slices.Equal(paths, p.paths) {
			break
		}
		p.paths = paths
	}
	return documents, problems
}

// watchMore takes up the files that Watch named. One that changed since the
// last load may have been read in either state.
func (p *Provider) watchMore(out func(provider.Update)) {
	now := imprints{}
	changed := false
	p.files = p.named()
	for _, path := range p.files {
		before, known := p.extras[path]
		if known {
			now[path] = before // its change, if any, is for check to find
			continue
		}
		now[path] = printFile(path)
		changed = changed || !now[path].modified.Before(p.loaded.Add(-clockStep))
	}
	p.extras = now
	if changed {
		p.update(out, false, true)
		return
	}
	p.watch()
	p.wait()
}

// named are the files of the last call of Watch.
func (p *Provider) named() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.extra
}

// watch brings the watches up to date with the files and links that are there.
// What happened in a directory before it was watched is for one more look.
func (p *Provider) watch() {
	if p.watcher.follow(p.paths, p.files) {
		p.wait()
	}
}

// summary is equal for equal updates.
func summary(documents []config.Document, problems []model.Problem) [sha256.Size]byte {
	text, err := json.Marshal([]any{documents, problems})
	if err != nil {
		panic("BUG: an update has no text: " + err.Error())
	}
	return sha256.Sum256(text)
}
