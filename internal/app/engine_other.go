//go:build !linux

package app

import (
	"errors"
	"log/slog"

	"sluice/internal/netloop"
)

// bestEngine is what auto means.
const bestEngine = engineGoroutine

func newLoops(int, *slog.Logger) (netloop.Driver, error) {
	return nil, errors.New("event loops need Linux")
}
