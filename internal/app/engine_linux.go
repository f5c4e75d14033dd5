package app

import (
	"log/slog"

	"sluice/internal/netloop"
)

// bestEngine is what auto means.
const bestEngine = engineLoop

func newLoops(n int, log *slog.Logger) (netloop.Driver, error) {
	loops, err := netloop.NewLoops(n, log)
	if err != nil {
		return nil, err
	}
	return loops, nil
}
