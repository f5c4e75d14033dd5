package pipeline

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/model"
)

// TestWaitUntil bounds waits by what there is of an exchange's times.
func TestWaitUntil(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		timeouts model.RouteTimeouts
		call     time.Duration // until when a call may take; 0: as long as it likes
		waited   time.Duration
		want     time.Duration
	}{
		"its own":             {want: 10 * s},
		"its own, again":      {waited: 5 * s, want: 10 * s},
		"timeout":             {timeouts: model.RouteTimeouts{Response: 5 * s}, want: 5 * s},
		"the rest of it":      {timeouts: model.RouteTimeouts{Response: 5 * s}, waited: 3 * s, want: 2 * s},
		"nothing of it":       {timeouts: model.RouteTimeouts{Response: 5 * s}, waited: 6 * s, want: -1 * s},
		"a long one":          {timeouts: model.RouteTimeouts{Response: 50 * s}, waited: 3 * s, want: 10 * s},
		"total_timeout":       {timeouts: model.RouteTimeouts{Response: 5 * s, Total: 4 * s}, waited: s, want: 3 * s},
		"a call":              {timeouts: model.RouteTimeouts{Total: 4 * s}, call: 2 * s, want: 2 * s},
		"a call in all of it": {timeouts: model.RouteTimeouts{Total: 4 * s}, call: 6 * s, want: 4 * s},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := Exchange{ctx: t.Context(), Start: time.Now()}
				if test.call > 0 {
					x.Until = x.Start.Add(test.call)
				}
				x.Enter(&model.Route{Timeouts: test.timeouts}, nil)
				x.Wait(func() { time.Sleep(test.waited) })
				if x.Waited() != test.waited {
					t.Errorf("it has waited %v", x.Waited())
				}
				if got := time.Until(x.WaitUntil(10 * s)); got != test.want {
					t.Errorf("%v, want %v", got, test.want)
				}
			})
		})
	}
}
