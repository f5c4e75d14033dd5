// Package e2e holds the end-to-end tests: whole gateways, real sockets, real
// peers. It has only tests, which run once on each engine, but for those that call once.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/gatewaytest"
)

// suite is what the tests run on, one after another.
var suite = []string{gatewaytest.Loop, gatewaytest.Goroutine, gatewaytest.Standard}

// Flags of this test binary. What they make longer is the same test that always
// runs.
var (
	onEngine = flag.String("engine", os.Getenv(gatewaytest.EngineVariable), "the one engine to run on: loop, goroutine or standard; none: each")
	long     = flag.Bool("long", false, "hold the tests of load to the budgets, which needs a machine with nothing else to do")
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(engines{m})
}

// engines runs the tests on each engine, and removes the binaries after the
// last one.
type engines struct{ *testing.M }

func (e engines) Run() (code int) {
	defer func() {
		if dir, err := binaryDir(); err == nil {
			_ = os.RemoveAll(dir) // what is left in a temporary folder harms nobody
		}
	}()
	if *onEngine != "" {
		suite = []string{*onEngine}
	}
	if i := slices.IndexFunc(suite, func(name string) bool {
		return name != gatewaytest.Loop && name != gatewaytest.Goroutine && name != gatewaytest.Standard
	}); i >= 0 {
		fmt.Fprintf(os.Stderr, "no engine is called %q\n", suite[i])
		return 2
	}
	for _, engine := range suite {
		fmt.Println("engine:", engine)
		if err := os.Setenv(gatewaytest.EngineVariable, engine); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		code = max(code, e.M.Run())
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintf(os.Stderr, "engine %s leaves something behind: %v\n", engine, err)
			code = 1
		}
	}
	return code
}

// once leaves a test to the first engine of those that are run: what it is about stands
// above the engines, and takes long.
func once(t *testing.T) {
	t.Helper()
	if engine := os.Getenv(gatewaytest.EngineVariable); engine != suite[0] {
		t.Skipf("it has run on %s: what it is about stands above the engines", suite[0])
	}
}

// Programs that tests run beside themselves, built once each and without the
// race detector, which bears no ten thousand goroutines.
var (
	binaryDir    = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "sluice-binaries") })
	sluiceBinary = sync.OnceValues(func() (string, error) { return buildInto("sluice/cmd/sluice") })
	holdBinary   = sync.OnceValues(func() (string, error) { return buildInto("sluice/internal/e2e/testdata/hold") })
)

func buildInto(pkg string) (string, error) {
	dir, err := binaryDir()
	if err != nil {
		return "", err
	}
	return gatewaytest.Build(dir, pkg)
}

// built returns the path of a program, or fails the test.
func built(t *testing.T, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
