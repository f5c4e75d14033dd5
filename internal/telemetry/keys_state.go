package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// KeysState is how the keys are that a token issuer serves.
type KeysState struct {
	URL             string
	Keys            int
	Fetched, Failed int64
	Last            time.Time // when they were fetched; zero: never
}

// keysDescs are the families of the keys of issuers.
type keysDescs struct{ fetches, keys, last *prometheus.Desc }

func newKeysDescs() keysDescs {
	return keysDescs{
		fetches: prometheus.NewDesc("gateway_jwks_fetches_total", "Fetches of the keys of a token issuer, by what became of them.", []string{"url", "result"}, nil),
		keys:    prometheus.NewDesc("gateway_jwks_keys", "Keys of a token issuer that are in use.", []string{"url"}, nil),
		last:    prometheus.NewDesc("gateway_jwks_last_success_timestamp_seconds", "When the keys of a token issuer were last fetched, in Unix time; 0: never.", []string{"url"}, nil),
	}
}

func (d *keysDescs) describe(out chan<- *prometheus.Desc) {
	out <- d.fetches
	out <- d.keys
	out <- d.last
}

// keysSets are the series of the keys of issuers. Those of one URL, which several routes
// may have, are one.
func (c *stateCollector) keysSets(keys []KeysState) []*gaugeSet {
	more := func(a, b float64) float64 { return max(a, b) }
	sum := func(a, b float64) float64 { return a + b }
	earlier := func(a, b float64) float64 { return min(a, b) }
	fetches, used, last := c.gauges(c.keys.fetches, more, sum), c.gauges(c.keys.keys, more, sum), c.gauges(c.keys.last, more, earlier)
	fetches.kind = prometheus.CounterValue
	for _, k := range keys {
		fetches.add(float64(k.Fetched), k.URL, "success")
		fetches.add(float64(k.Failed), k.URL, "failure")
		used.add(float64(k.Keys), k.URL)
		at := 0.0
		if !k.Last.IsZero() {
			at = float64(k.Last.UnixNano()) / 1e9
		}
		last.add(at, k.URL)
	}
	return []*gaugeSet{fetches, used, last}
}
