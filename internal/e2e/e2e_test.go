// Package e2e holds the end-to-end tests: whole gateways, real sockets, real
// peers. It has only tests.
package e2e

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
