package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// keysSamples are the samples of the keys of issuers.
func keysSamples(t *testing.T, m *Metrics) string {
	t.Helper()
	var lines []string
	for _, line := range samples(t, m) {
		if strings.HasPrefix(line, "gateway_jwks_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// TestKeysState has one series for the keys of one URL, however many routes use them.
func TestKeysState(t *testing.T) {
	m := NewMetrics(0)
	one := KeysState{URL: "https://a.test/keys", Keys: 2, Fetched: 7, Failed: 3, Last: time.Unix(1_900_000_000, 0)}
	state := State{Keys: []KeysState{one, {URL: "https://b.test/keys", Failed: 1}, one}}
	m.ReadFrom(func() State { return state })
	want := `gateway_jwks_fetches_total{result="failure",url="https://a.test/keys"} 3
gateway_jwks_fetches_total{result="failure",url="https://b.test/keys"} 1
gateway_jwks_fetches_total{result="success",url="https://a.test/keys"} 7
gateway_jwks_fetches_total{result="success",url="https://b.test/keys"} 0
gateway_jwks_keys{url="https://a.test/keys"} 2
gateway_jwks_keys{url="https://b.test/keys"} 0
gateway_jwks_last_success_timestamp_seconds{url="https://a.test/keys"} 1.9e+09
gateway_jwks_last_success_timestamp_seconds{url="https://b.test/keys"} 0`
	if diff := cmp.Diff(want, keysSamples(t, m)); diff != "" {
		t.Error(diff)
	}
	state = State{} // a reload has removed them
	if got := keysSamples(t, m); got != "" {
		t.Errorf("what is gone has\n%s", got)
	}
}

func TestKeysStateIsBounded(t *testing.T) {
	m := NewMetrics(2)
	m.ReadFrom(func() (s State) {
		for i := range 4 {
			s.Keys = append(s.Keys, KeysState{URL: fmt.Sprint("u", i), Keys: i + 1, Fetched: int64(10 + i), Last: time.Unix(int64(20-i), 0)})
		}
		return s
	})
	want := `gateway_jwks_fetches_total{result="_other",url="_other"} 36
gateway_jwks_fetches_total{result="failure",url="u0"} 0
gateway_jwks_fetches_total{result="success",url="u0"} 10
gateway_jwks_keys{url="_other"} 7
gateway_jwks_keys{url="u0"} 1
gateway_jwks_keys{url="u1"} 2
gateway_jwks_last_success_timestamp_seconds{url="_other"} 17
gateway_jwks_last_success_timestamp_seconds{url="u0"} 20
gateway_jwks_last_success_timestamp_seconds{url="u1"} 19`
	if diff := cmp.Diff(want, keysSamples(t, m)); diff != "" {
		t.Error(diff)
	}
}
