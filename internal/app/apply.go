package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"sluice/internal/admin"
	"sluice/internal/model"
	"sluice/internal/provider"
	"sluice/internal/server"
	"sluice/internal/snapshot"
)

// apply is the one step that every change of the configuration leads to:
// resolve, build, swap. With a problem nothing changes. It returns the
// problems, warnings among them.
func (g *Gateway) apply(update provider.Update) []model.Problem {
	began := time.Now()
	problems := update.Problems
	var compiled *snapshot.Compiled
	if !model.Refused(problems) {
		var files []string
		var found []model.Problem
		compiled, files, found = snapshot.Compile(update.Documents, g.builder.Kinds, g.values)
		problems = append(problems, found...)
		g.source.Watch(files)
	}
	if compiled != nil {
		if serving := g.current.Load(); serving != nil && serving.SHA256 == compiled.SHA256 {
			g.problems.Store(&problems)
			level := slog.LevelDebug
			if update.Forced { // whoever asked waits for an answer
				level = slog.LevelInfo
			}
			g.log.Log(context.Background(), level, "the documents did not change", "revision", serving.Revision.Number)
			return problems
		}
		switch err := g.replace(compiled, update.Source); {
		case errors.Is(err, errEnding):
			return nil
		case err != nil:
			problems = append(problems, model.Problem{Position: model.Position{File: update.Documents[0].Name}, Message: cmp.Or(errors.Unwrap(err), err).Error()}) // without the lease's key, which says it twice
			compiled = nil
		}
	}
	g.problems.Store(&problems)
	if compiled == nil {
		g.metrics.ConfigRefused()
		if g.current.Load() == nil {
			return problems // Run returns them, and its caller tells
		}
	}
	for _, p := range problems {
		if p.Warning {
			g.log.Warn("configuration", "problem", p.Error())
		} else {
			g.log.Error("configuration refused", "problem", p.Error())
		}
	}
	if compiled != nil {
		revision := g.current.Load().Revision
		g.metrics.ConfigServed(uint64(revision.Number), revision.Time)
		g.log.Info("configuration serves", "revision", revision.Number, "listeners", g.addresses(), "admin", g.AdminAddr().String(), "routes", len(compiled.Gateway.Routes), "took", time.Since(began).Round(time.Microsecond))
	}
	return problems
}

// addresses are those of the listeners that serve, for the log.
func (g *Gateway) addresses() string {
	var list []string
	for _, listener := range g.current.Load().Listeners {
		status := listener.Status()
		list = append(list, status.Name+"="+status.Address)
	}
	return strings.Join(list, " ")
}

// replace builds a snapshot, starts what is new in it, makes it the serving
// one, and only then lets go of the one before.
func (g *Gateway) replace(compiled *snapshot.Compiled, source string) error {
	before := g.current.Load()
	revision := snapshot.Revision{Number: 1, SHA256: compiled.SHA256, Time: time.Now(), Source: source}
	if before != nil {
		revision.Number = before.Revision.Number + 1
	}
	g.metrics.SetMaxSeries(compiled.Gateway.MaxSeries)
	next := g.builder.Build(compiled, revision)
	api := admin.Acquire(next.Leases, compiled.Gateway.Admin.Address, g.api, g.sockets.Listen)
	g.sockets.expect(compiled.Gateway)
	if err := next.Commit(); err != nil {
		next.Release()
		if before != nil {
			g.metrics.SetMaxSeries(before.Gateway.MaxSeries)
		}
		return err
	}
	if !g.swap(next, api) {
		next.Release()
		return errEnding
	}
	g.history.Add(revision, compiled.Documents)
	if before != nil {
		before.Release()
	} else {
		close(g.serving)
		g.sockets.Done()
	}
	return nil
}

// errEnding is a change that came too late.
var errEnding = errors.New("the gateway ends")

// swap makes a snapshot the serving one, unless the gateway ends. The lock is
// held for nothing that may wait: not for reading, binding or opening.
func (g *Gateway) swap(next *snapshot.Snapshot, api *admin.Listener) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase > running {
		return false
	}
	g.admin = api
	if before := g.current.Swap(next); before != nil {
		g.leaving = slices.DeleteFunc(g.leaving, quiet)
		for _, listener := range before.Listeners {
			if !slices.Contains(next.Listeners, listener) {
				g.leaving = append(g.leaving, listener)
			}
		}
	}
	for i, m := range next.Gateway.Listeners {
		next.Listeners[i].Serve(m)
	}
	return true
}

func quiet(listener *server.Listener) bool {
	select {
	case <-listener.Quiet():
		return true
	default:
		return false
	}
}
