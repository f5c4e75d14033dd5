// Package e2e holds the end-to-end tests: whole gateways, real sockets, real
// peers. It has only tests.
package e2e

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/gatewaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(cleaned{m}) }

// cleaned removes the binaries after the last test.
type cleaned struct{ *testing.M }

func (c cleaned) Run() int {
	code := c.M.Run()
	if dir, err := binaryDir(); err == nil {
		_ = os.RemoveAll(dir) // what is left in a temporary folder harms nobody
	}
	return code
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
