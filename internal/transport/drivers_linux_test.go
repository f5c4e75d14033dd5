package transport

import (
	"log/slog"

	"sluice/internal/netloop"
)

// newLoops starts n event loops.
func newLoops(n int, log *slog.Logger) (netloop.Driver, error) { return netloop.NewLoops(n, log) }
