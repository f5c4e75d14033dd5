// Package keyset brings the keys of token issuers: JWK sets (RFC 7517) that they serve by
// HTTP. It checks no token.
package keyset

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/token"
)

// What keeps keys from being newer.
var (
	// ErrUnavailable: the issuer does not answer, or with nothing that helps.
	ErrUnavailable = errors.New("the issuer does not give its keys for now")
	// ErrCrowded: too many wait for them already.
	ErrCrowded = errors.New("too many wait for the keys of the issuer")
)

// Settings say where an issuer serves its keys.
type Settings struct {
	URL string // http or https
	CA  string // PEM: the authorities that its certificate must come from; empty: the system's
}

// MaxWait is how long Newer waits, at most.
const MaxWait = 5 * time.Second

const (
	// usual is how long keys are good for without asking again, where the issuer says
	// nothing; what it says (Cache-Control) counts within least and most, so that a key
	// that it has withdrawn is not believed for long.
	usual = 10 * time.Minute
	least = time.Minute
	most  = time.Hour
	// throttle is the time between the beginnings of two fetches, whoever wants them.
	throttle = time.Second
	// slowest is the longest time between two tries while there is no answer.
	slowest = 30 * time.Second
	// maxWaiters is how many may wait for the keys of one issuer.
	maxWaiters = 256
)

// Remote is the keys that an issuer serves by HTTP. They are fetched in the background,
// and again before they are stale; while the issuer does not answer the last ones stay,
// for however long that lasts.
type Remote struct {
	url    string
	fetch  func(ctx context.Context) (*answer, error)
	log    *slog.Logger
	wanted chan struct{} // somebody waits for the next fetch
	done   chan struct{} // no more fetches will come
	cancel context.CancelFunc

	keys atomic.Pointer[token.Set]

	fetched, failed atomic.Int64
	last            atomic.Pointer[time.Time] // when a fetch brought keys

	mu      sync.Mutex
	current *round // that is under way; nil: none is
	next    *round // that will come; nil: nobody waits for it
	tried   bool   // a round is over
	waiting int
}

// round is one fetch.
type round struct {
	done chan struct{} // closed when it is over
	err  error
}

// Acquire returns the keys that these settings tell of, the live ones if there are; set
// holds them. They are fetched from the time on that set is committed.
func Acquire(set *lease.Set, s Settings, log *slog.Logger) *Remote {
	return lease.Acquire(set, "keys of an issuer\n"+model.Text(s), func() *Remote {
		return newRemote(s.URL, newClient(s).fetch, log.With("url", s.URL))
	})
}

func newRemote(url string, fetch func(ctx context.Context) (*answer, error), log *slog.Logger) *Remote {
	return &Remote{url: url, fetch: fetch, log: log, wanted: make(chan struct{}, 1), done: make(chan struct{})}
}

// Start begins to fetch. It is for the registry of leases.
func (r *Remote) Start() error {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.run(ctx)
	return nil
}

// Release ends that.
func (r *Remote) Release() { r.cancel() }

// Keys returns those that were fetched last; nil: none ever were.
func (r *Remote) Keys() *token.Set { return r.keys.Load() }

// Status tells how they are.
func (r *Remote) Status() pipeline.KeysStatus {
	status := pipeline.KeysStatus{URL: r.url, Fetched: r.fetched.Load(), Failed: r.failed.Load()}
	if keys := r.keys.Load(); keys != nil {
		status.Keys = keys.Len()
	}
	if last := r.last.Load(); last != nil {
		status.Last = *last
	}
	return status
}

// Newer waits for keys that are newer than some that did not do, and returns those of
// now, which may be the same: then the issuer has none that are newer. All who wait do so
// for one fetch, for MaxWait at most, or until ctx ends. Where there are no keys
// at all it waits for the first fetch alone: after that one has failed the issuer is asked
// again, and whoever wants keys is told at once that there are none.
func (r *Remote) Newer(ctx context.Context, than *token.Set) (*token.Set, error) {
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	for {
		awaited, begun, err := r.await(than)
		if err != nil || awaited == nil {
			return r.keys.Load(), err
		}
		err = r.wait(ctx, awaited)
		keys := r.keys.Load()
		if keys != than || err != nil || !begun {
			return keys, err
		}
		// The fetch had begun before the key was missed: the next one counts.
	}
}

// wait waits for a round, and is no longer among those who wait.
func (r *Remote) wait(ctx context.Context, awaited *round) (err error) {
	select {
	case <-awaited.done:
		err = awaited.err
	case <-r.done:
		err = ErrUnavailable
	case <-ctx.Done():
		if err = context.Cause(ctx); errors.Is(err, context.DeadlineExceeded) {
			err = ErrUnavailable
		}
	}
	r.mu.Lock()
	r.waiting--
	r.mu.Unlock()
	return err
}

// await returns the round to wait for, as one of those who do; nil: there are other
// keys. begun says that the round was under way already.
func (r *Remote) await(than *token.Set) (awaited *round, begun bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := r.keys.Load()
	switch {
	case keys != than:
		return nil, false, nil
	case keys == nil && r.tried:
		r.want()
		return nil, false, ErrUnavailable
	case r.waiting >= maxWaiters:
		return nil, false, ErrCrowded
	}
	r.waiting++
	if r.current != nil {
		return r.current, true, nil
	}
	return r.want(), false, nil
}

// want has the next round come as soon as it may. It is called with the lock held.
func (r *Remote) want() *round {
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	select {
	case r.wanted <- struct{}{}:
	default:
	}
	return r.next
}

// run fetches again and again, until ctx ends.
func (r *Remote) run(ctx context.Context) {
	defer close(r.done)
	Repeat(ctx, r.wanted, func(failures int) (time.Duration, error) {
		lifetime, err := r.once(ctx)
		if ctx.Err() == nil {
			r.tell(err, failures)
		}
		return lifetime, err
	})
}

// once is one fetch, for all who wait for one. It returns how long its keys are good for.
func (r *Remote) once(ctx context.Context) (time.Duration, error) {
	r.mu.Lock()
	this := r.next
	if this == nil {
		this = &round{done: make(chan struct{})}
	}
	r.current, r.next = this, nil
	select {
	case <-r.wanted: // it is met by this one
	default:
	}
	r.mu.Unlock()

	got, err := r.fetch(ctx)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.current, r.tried = nil, true
	if err != nil {
		r.failed.Add(1)
		this.err = ErrUnavailable
		close(this.done)
		return 0, err
	}
	if !got.Set.Equal(r.keys.Load()) { // the same keys stay the same set
		r.keys.Store(got.Set)
		r.log.Info("the keys of an issuer have changed", "keys", got.Set.Len(), "unused", got.Unused)
	}
	now := time.Now()
	r.last.Store(&now)
	r.fetched.Add(1)
	close(this.done)
	return got.lifetime, nil
}

// tell tells of an outage, once, and of its end.
func (r *Remote) tell(err error, failures int) {
	switch {
	case err != nil && failures == 0 && r.keys.Load() == nil:
		r.log.Warn("the keys of an issuer cannot be fetched; its tokens are refused until they are", "error", err)
	case err != nil && failures == 0:
		r.log.Warn("the keys of an issuer cannot be fetched; the last ones stay in use", "error", err)
	case err == nil && failures > 0:
		r.log.Info("the keys of an issuer are fetched again", "failures", failures)
	}
}
