package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// change is an update on its way to serve.
type change struct {
	update   provider.Update
	compiled *snapshot.Compiled // nil before it is resolved, and if it is refused
	problems []model.Problem    // of the documents
	failed   string             // why it could not be started when that was tried last
}

// apply is the one step that every change of the configuration leads to:
// resolve, build, swap. With a problem nothing changes. It returns the
// problems, warnings among them; again says that the same change may do later,
// as its only problem is outside of the documents: an address that somebody
// else has, a folder that is not there.
func (g *Gateway) apply(c *change) (problems []model.Problem, again bool) {
	began, first := time.Now(), c.compiled == nil
	if first {
		g.resolve(c)
	}
	problems = c.problems
	serves := false
	if c.compiled != nil {
		if serving := g.current.Load(); serving != nil && serving.SHA256 == c.compiled.SHA256 {
			g.problems.Store(&problems)
			level := slog.LevelDebug
			if c.update.Forced { // whoever asked waits for an answer
				level = slog.LevelInfo
			}
			g.log.Log(context.Background(), level, "the documents did not change", "revision", serving.Revision.Number)
			return problems, false
		}
		switch err := g.replace(c.compiled, c.update.Source); {
		case errors.Is(err, errEnding):
			return nil, false
		case err != nil:
			problem := g.outside(c, err)
			problems, again = append(slices.Clip(problems), problem), true
			if problem.Message == c.failed { // it is told already
				g.log.Debug("configuration refused again", "problem", problem.Error())
				return problems, again
			}
			c.failed = problem.Message
		default:
			serves = true
		}
	}
	g.problems.Store(&problems)
	if !serves && first {
		g.metrics.ConfigRefused()
	}
	if g.current.Load() == nil {
		return problems, again // Run returns them, and its caller tells
	}
	g.tell(problems)
	if serves {
		revision := g.current.Load().Revision
		g.log.Info("configuration serves", "revision", revision.Number, "listeners", g.addresses(), "admin", g.AdminAddr().String(), "routes", len(c.compiled.Gateway.Routes), "took", time.Since(began).Round(time.Microsecond))
	}
	return problems, again
}

// resolve reads the documents of a change.
func (g *Gateway) resolve(c *change) {
	c.problems = c.update.Problems
	if model.Refused(c.problems) {
		return
	}
	compiled, files, found := snapshot.Compile(c.update.Documents, g.builder.Kinds, g.values)
	c.compiled, c.problems = compiled, append(slices.Clip(c.problems), found...)
	g.source.Watch(files)
}

// outside is the problem of a change that could not be started: at the address
// that could not be had, else at the documents as a whole.
func (g *Gateway) outside(c *change, err error) model.Problem {
	problem := model.Problem{Position: model.Position{File: c.update.Documents[0].Name}}
	var bind *server.BindError
	if errors.As(err, &bind) {
		problem = c.compiled.At(bind.Address)
	}
	problem.Message = cmp.Or(errors.Unwrap(err), err).Error() // without the lease's key, which says it twice
	if g.current.Load() != nil {
		problem.Hint = fmt.Sprintf("it is tried again every %v", g.retryEvery)
	}
	return problem
}

// tell logs problems.
func (g *Gateway) tell(problems []model.Problem) {
	for _, p := range problems {
		if p.Warning {
			g.log.Warn("configuration", "problem", p.Error())
		} else {
			g.log.Error("configuration refused", "problem", p.Error())
		}
	}
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
	if err := g.useEngine(compiled.Gateway.Engine); err != nil {
		return err
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
	g.metrics.ConfigServed(uint64(revision.Number), revision.Time)
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
		next.Listeners[i].Serve(m, next.Secure[i])
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
