package proxy_test

import (
	"log/slog"

	"sluice/internal/netloop"
)

// newLoops starts event loops.
func newLoops(log *slog.Logger) (netloop.Driver, error) { return netloop.NewLoops(2, log) }
