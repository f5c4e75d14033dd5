//go:build !linux

package proxy_test

import (
	"log/slog"

	"sluice/internal/netloop"
)

// newLoops stands in where there are none.
func newLoops(log *slog.Logger) (netloop.Driver, error) { return netloop.NewGoroutines(log), nil }
