package server_test

import (
	"log/slog"

	"sluice/internal/netloop"
)

// moreHalves are those that this system has beside the ones of all.
func moreHalves() []half {
	return []half{{"loop", func(log *slog.Logger) (netloop.Driver, error) {
		driver, err := netloop.NewLoops(2, log)
		if err != nil {
			return nil, err
		}
		return driver, nil
	}}}
}
