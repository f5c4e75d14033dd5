package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/internal/model"
	"sluice/internal/provider"
	"sluice/internal/server"
	"sluice/internal/snapshot"
)

// Bounds on what the end waits for besides exchanges.
const (
	flushTimeout  = 5 * time.Second // for the access log's last lines
	cutTimeout    = time.Second     // the same, when the gateway is to end at once
	sourceTimeout = time.Second     // for a source that reads from a file system that hangs
)

// retryEvery is the RetryEvery of Options that say nothing.
const retryEvery = 2 * time.Second

// errEnded is a source that ended without being told to, and without a cause.
var errEnded = errors.New("it ended")

// ErrCut is the end of a gateway that had to cut what was under way, because it
// was told to end at once.
var ErrCut = errors.New("told to end at once, the gateway cut what was under way")

// phase is how far the end of a gateway has come.
type phase int

const (
	running  phase = iota
	yielding       // another process serves the sockets; clients are to go there without noticing
	draining       // nothing new is taken, what is under way may finish
	cutting        // it may not
	phases
)

// enter begins a phase, and those before it; going back is nothing.
func (g *Gateway) enter(next phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.phase < next {
		g.phase++
		close(g.begun[g.phase])
	}
}

// Stop ends the gateway. The first call drains, as the end of Run's ctx does;
// another one cuts what is still under way, and Run returns in about a second.
func (g *Gateway) Stop() {
	g.mu.Lock()
	next := draining
	if g.phase >= draining {
		next = cutting
	}
	g.mu.Unlock()
	g.enter(next)
}

// Run serves until ctx ends, Stop is called or another process has taken over,
// then drains: it takes no new work and lets exchanges finish for up to
// drain_timeout. A first configuration that is refused is a *RefusedError. Run
// is called once.
//
// A change of the configuration is applied beside it, one at a time; one that
// hangs, as in reading a file, does not keep Run from draining. One that only
// something outside of the documents keeps from serving is tried again until
// another one comes.
func (g *Gateway) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { g.enter(draining) })()
	defer g.endEngine()
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	updates := make(chan provider.Update)
	stopped := make(chan struct{})
	var failure error // read once stopped is closed
	go func() {
		defer close(stopped)
		failure = g.source.Run(watching, func(u provider.Update) {
			select {
			case updates <- u:
			case <-watching.Done():
			}
		})
	}()
	defer func() {
		stopWatching()
		waitFor(stopped, sourceTimeout)
	}()
	type outcome struct {
		problems []model.Problem
		again    bool
	}
	applied := make(chan outcome, 1)
	next := updates // nil while a change is under way: the next one waits in the source
	var latest *change
	start := func() { //nolint:contextcheck // what it starts outlives Run
		next = nil
		go func() {
			problems, again := g.apply(latest)
			applied <- outcome{problems, again}
		}()
	}
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-g.begun[yielding]:
			return g.drain(watching)
		case update := <-next:
			retry.Stop()
			latest = &change{update: update}
			start()
		case o := <-applied:
			next = updates
			if g.current.Load() == nil && model.Refused(o.problems) {
				return &RefusedError{o.problems}
			}
			if o.again {
				retry.Reset(g.retryEvery)
			}
		case <-retry.C:
			start()
		case <-stopped:
			g.enter(draining)
			return errors.Join(fmt.Errorf("watching the configuration: %w", cmp.Or(failure, errEnded)), g.drain(watching))
		}
	}
}

// waitFor waits for the end of something, within a time.
func waitFor(end <-chan struct{}, atMost time.Duration) (ended bool) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-end:
		return true
	case <-timer.C:
		return false
	}
}

// drain ends the gateway: readiness first, then the listeners, then the rest.
func (g *Gateway) drain(background context.Context) error {
	s, listeners := g.last()
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(background, s.Gateway.DrainTimeout)
	defer cancel()
	if g.yields() {
		g.log.Info("yielding", "timeout", s.Gateway.DrainTimeout)
	} else {
		g.log.Info("draining", "timeout", s.Gateway.DrainTimeout)
	}
	err := g.endListeners(ctx, listeners)
	flushing, cancelFlush := context.WithTimeout(background, flushTimeout)
	defer cancelFlush()
	go func() {
		if ended(flushing, g.begun[cutting]) && !waitFor(flushing.Done(), cutTimeout) {
			cancelFlush()
		}
	}()
	released := make(chan struct{})
	go func() { // a change that hangs while it opens something holds the leases
		defer close(released)
		s.Release()
	}()
	if ended(flushing, released) {
		if err := s.WaitForLog(flushing); err != nil {
			g.log.Error("the access log lost its last lines", "error", err)
		}
	} else {
		g.log.Error("a change of the configuration hangs; the access log may have lost its last lines")
	}
	g.log.Info("stopped")
	return err
}

// ended waits for the end of something or of ctx, and tells whether it was the
// former.
func ended(ctx context.Context, end <-chan struct{}) bool {
	select {
	case <-end:
		return true
	case <-ctx.Done():
		return false
	}
}

// endListeners lets what is under way finish, until ctx ends or the gateway is
// to end at once.
func (g *Gateway) endListeners(ctx context.Context, listeners []*server.Listener) error {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	patience, losePatience := context.WithCancel(ctx)
	defer losePatience()
	go func() {
		if ended(ctx, g.begun[draining]) {
			losePatience()
		}
		if ended(ctx, g.begun[cutting]) {
			cut(ErrCut)
		}
	}()
	errs := make([]error, len(listeners))
	var pending sync.WaitGroup
	for i, listener := range listeners {
		pending.Go(func() {
			if patience.Err() == nil && g.yields() {
				listener.Yield(patience)
			}
			errs[i] = listener.Shutdown(ctx)
		})
	}
	pending.Wait()
	var result error
	for i, err := range errs {
		switch name := listeners[i].Status().Name; {
		case errors.Is(err, ErrCut):
			g.log.Warn("exchanges were cut to end at once", "listener", name)
			result = ErrCut
		case err != nil:
			g.log.Warn("exchanges were cut at the end of drain_timeout", "listener", name, "error", err)
		}
	}
	return result
}

// yields tells whether another process serves the sockets, and nobody has told
// this one to hurry.
func (g *Gateway) yields() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.phase == yielding
}

// last is the snapshot that serves, nil without, and everything that listens,
// also what earlier snapshots have left and drains. A change that is under way
// comes too late from here on.
func (g *Gateway) last() (s *snapshot.Snapshot, listeners []*server.Listener) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s = g.current.Load(); s != nil {
		listeners = append(listeners, g.leaving...)
		listeners = append(listeners, s.Listeners...)
		if g.phase == yielding {
			g.admin.Yield()
		}
	}
	return s, listeners
}
