package netloop

import "log/slog"

// drivers are all that there are here.
func drivers() []kind {
	return []kind{goroutines, {"loop", func(log *slog.Logger) (Driver, error) { return NewLoops(2, log) }}}
}
