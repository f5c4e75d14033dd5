package server_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/logtest"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(halves{m}) }

// half is what serves HTTP/1.1 in a run of the tests.
type half struct {
	name string
	// driver starts what the engine runs on; nil: net/http serves.
	driver func(log *slog.Logger) (netloop.Driver, error)
}

// goroutineDriver is the driver that every system has.
func goroutineDriver(log *slog.Logger) (netloop.Driver, error) {
	return netloop.NewGoroutines(log), nil
}

// serving is the half that the tests run on, and engine whether it is the
// engine.
var (
	serving half
	engine  bool
)

// halves runs the tests on both halves of the package: the adapter to net/http,
// then the engine on each driver there is. SLUICE_TEST_HALF names one of them.
type halves struct{ *testing.M }

func (h halves) Run() int {
	only := os.Getenv("SLUICE_TEST_HALF")
	all := append([]half{{"adapter", nil}, {"engine", goroutineDriver}}, moreHalves()...)
	for _, serving = range all {
		if only != "" && only != serving.name {
			continue
		}
		engine = serving.driver != nil
		fmt.Println("=== half:", serving.name)
		if code := h.M.Run(); code != 0 {
			return code
		}
	}
	return 0
}

// ofAdapter leaves out a test of what the adapter alone does.
func ofAdapter(t *testing.T, why string) {
	t.Helper()
	if engine {
		t.Skip(why)
	}
}

// ofEngine leaves out a test of what the engine alone does.
func ofEngine(t *testing.T, why string) {
	t.Helper()
	if !engine {
		t.Skip(why)
	}
}

// newDriver starts the driver of the half that the tests run on, until the test
// ends; nil for the adapter. None of its tasks may panic.
func newDriver(t *testing.T) netloop.Driver {
	t.Helper()
	if !engine {
		return nil
	}
	log := &logtest.Buffer{}
	driver, err := serving.driver(slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		driver.Stop()
		if text := log.String(); strings.Contains(text, "panicked") {
			t.Errorf("the driver has logged: %s", text)
		}
	})
	return driver
}

// await receives from a channel for an exchange, where that holds up nobody.
func await[T any](x *pipeline.Exchange, c <-chan T) (v T, ok bool) {
	x.Wait(func() { v, ok = <-c })
	return v, ok
}

// canceled waits for the end of an exchange's context and returns its cause.
func canceled(x *pipeline.Exchange) error {
	await(x, x.Context().Done())
	return contextCause(x)
}

// pause waits for a while, or for the end of the exchange, and returns its cause
// then.
func pause(x *pipeline.Exchange, while time.Duration) (ended error) {
	x.Wait(func() {
		select {
		case <-x.Context().Done():
			ended = contextCause(x)
		case <-time.After(while):
		}
	})
	return ended
}

// aside runs f beside the one that serves an exchange, as a transport does:
// where that is a task, f is one too. The result waits for its end.
func aside(x *pipeline.Exchange, f func()) (wait func()) {
	own, ok := x.Context().(*netloop.Context)
	if !ok {
		var group sync.WaitGroup
		group.Go(f)
		return group.Wait
	}
	executor := own.Executor()
	over := executor.NewEvent()
	executor.Go(func() {
		defer over.Set()
		f()
	})
	return func() {
		if err := over.Wait(time.Time{}); err != nil {
			panic(err)
		}
	}
}
