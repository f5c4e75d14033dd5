//go:build !linux

package transport

import (
	"log/slog"

	"sluice/internal/netloop"
)

// newLoops starts what stands for event loops where there are none.
func newLoops(_ int, log *slog.Logger) (netloop.Driver, error) {
	return netloop.NewGoroutines(log), nil
}
