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
)

// Bounds on what a drain waits for besides exchanges.
const (
	// flushTimeout is for the access log's last lines.
	flushTimeout = 5 * time.Second
	// sourceTimeout is for a source that reads from a file system that hangs.
	sourceTimeout = time.Second
)

// errEnded is a source that ended without being told to, and without a cause.
var errEnded = errors.New("it ended")

// Run serves until ctx ends, then drains: it takes no new work and lets
// exchanges finish for up to drain_timeout. A first configuration that is
// refused is a *RefusedError. Run is called once.
//
// A change of the configuration is applied beside it, one at a time; one that
// hangs, as in reading a file, does not keep Run from draining.
func (g *Gateway) Run(ctx context.Context) error {
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
	applied := make(chan []model.Problem, 1)
	next := updates // nil while a change is under way: the next one waits in the source
	for {
		select {
		case <-ctx.Done():
			g.drain(watching)
			return nil
		case update := <-next:
			next = nil
			go func() { applied <- g.apply(update) }()
		case problems := <-applied:
			next = updates
			if g.current.Load() == nil && model.Refused(problems) {
				return &RefusedError{problems}
			}
		case <-stopped:
			g.drain(watching)
			return fmt.Errorf("watching the configuration: %w", cmp.Or(failure, errEnded))
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
func (g *Gateway) drain(background context.Context) {
	s := g.lastSnapshot()
	if s == nil {
		return
	}
	timeout := s.Gateway.DrainTimeout
	g.log.Info("draining", "timeout", timeout)
	ctx, cancel := context.WithTimeout(background, timeout)
	defer cancel()
	var pending sync.WaitGroup
	for _, listener := range s.Listeners {
		pending.Go(func() {
			if err := listener.Shutdown(ctx); err != nil {
				g.log.Warn("exchanges were cut at the end of drain_timeout", "listener", listener.Status().Name, "error", err)
			}
		})
	}
	pending.Wait()
	flushing, cancelFlush := context.WithTimeout(background, flushTimeout)
	defer cancelFlush()
	released := make(chan struct{})
	go func() { // a change that hangs while it opens something holds the leases
		defer close(released)
		s.Release()
	}()
	select {
	case <-released:
	case <-flushing.Done():
	}
	if err := s.WaitForLog(flushing); err != nil {
		g.log.Error("the access log lost its last lines", "error", err)
	}
	g.log.Info("stopped")
}
