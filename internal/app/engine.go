package app

import (
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/netloop"
	"sluice/internal/transport"
)

// The engines. Standard are the adapters to net/http on both sides, which no
// configuration can name.
const (
	engineAuto      = "auto"
	engineLoop      = "loop"
	engineGoroutine = "goroutine"
	engineStandard  = "standard"
)

// stopTimeout is for what an engine's tasks may take to notice its end.
const stopTimeout = time.Second

// engine is what drives connections. The first configuration chooses it; it
// stays until the process ends, as connections cannot change from one to
// another.
type engine struct {
	name       string
	driver     netloop.Driver      // nil: net/http
	aside      *netloop.Goroutines // for attempts that no task of the driver makes; may be the driver
	transports *transport.Engine   // nil: net/http
}

// startEngine starts an engine by its name; loops tells how many a loop engine
// has, 0: one for each processor.
func startEngine(name string, loops func() int, log *slog.Logger) (*engine, error) {
	if name == engineAuto {
		name = bestEngine
	}
	e := &engine{name: name}
	switch name {
	case engineStandard:
		return e, nil
	case engineLoop:
		driver, err := newLoops(loops(), log)
		if err != nil {
			return nil, fmt.Errorf("the engine: %w", err)
		}
		e.driver, e.aside = driver, netloop.NewGoroutines(log)
	case engineGoroutine:
		e.aside = netloop.NewGoroutines(log)
		e.driver = e.aside
	default:
		panic("BUG: no engine is called " + name)
	}
	e.transports = transport.NewEngine(e.driver.Executors(), e.aside)
	return e, nil
}

// stop ends the engine. Tasks that do not notice are left behind.
func (e *engine) stop() {
	if e.driver == nil {
		return
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.driver.Stop()
		e.aside.Stop()
	}()
	waitFor(stopped, stopTimeout)
}

// useEngine starts the engine that a configuration names, or the one that tests
// do, if none runs.
func (g *Gateway) useEngine(name string) error {
	if g.forced != "" {
		name = g.forced
	}
	if g.engine != nil {
		if name != engineAuto && name != g.engine.name {
			g.log.Warn("the engine changes with the next start of the process, as by SIGUSR2", "engine", g.engine.name, "configured", name)
		}
		return nil
	}
	e, err := startEngine(name, g.loops, g.log)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.engine = e
	g.mu.Unlock()
	g.builder.Server.Driver, g.builder.Transports = e.driver, e.transports
	return nil
}

// endEngine ends the engine, once nothing uses it any more.
func (g *Gateway) endEngine() {
	g.mu.Lock()
	e := g.engine
	g.mu.Unlock()
	if e != nil {
		e.stop()
	}
}
