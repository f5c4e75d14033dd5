package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStateIsReadForEachAnswer(t *testing.T) {
	m := NewMetrics(0)
	state := State{
		Endpoints: []EndpointState{{"a", "http://a1", true}, {"a", "http://a2", false}, {"b", "http://a1", true}},
		Breakers:  []BreakerState{{"a", "", 1}, {"b", "http://a1", 2}},
		Certificates: []CertificateState{
			{"web", "/c.pem", time.Unix(1_900_000_000, 0)}, {"web", "a.test", time.Unix(1_800_000_000, 0)}, {"more", "/c.pem", time.Unix(-5, 0)},
		},
	}
	m.ReadFrom(func() State { return state })
	want := `gateway_breaker_state{endpoint="",upstream="a"} 1
gateway_breaker_state{endpoint="http://a1",upstream="b"} 2
gateway_certificate_expiry_timestamp_seconds{certificate="/c.pem",listener="more"} -5
gateway_certificate_expiry_timestamp_seconds{certificate="/c.pem",listener="web"} 1.9e+09
gateway_certificate_expiry_timestamp_seconds{certificate="a.test",listener="web"} 1.8e+09
gateway_endpoint_healthy{endpoint="http://a1",upstream="a"} 1
gateway_endpoint_healthy{endpoint="http://a1",upstream="b"} 1
gateway_endpoint_healthy{endpoint="http://a2",upstream="a"} 0`
	hasSamples(t, stateSamples(t, m), want)
	state = State{Endpoints: []EndpointState{{"a", "http://a3\xff", true}}} // the others are gone
	if diff := cmp.Diff([]string{"gateway_endpoint_healthy{endpoint=\"http://a3\ufffd\",upstream=\"a\"} 1"}, stateSamples(t, m)); diff != "" {
		t.Error(diff)
	}
}

// hasSamples holds samples to those that are wanted, a line each.
func hasSamples(t *testing.T, got []string, want string) {
	t.Helper()
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

// stateSamples are the samples of the state.
func stateSamples(t *testing.T, m *Metrics) (lines []string) {
	t.Helper()
	for _, line := range samples(t, m) {
		for _, family := range []string{"gateway_endpoint_healthy{", "gateway_breaker_state{", "gateway_certificate_"} {
			if strings.HasPrefix(line, family) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// An endpoint may be listed twice, as with two versions, and two listeners may
// have one name while a reload goes on: a family with equal series would spoil the
// whole answer.
func TestStateWithEqualLabels(t *testing.T) {
	m := NewMetrics(0)
	m.ReadFrom(func() State {
		return State{
			Endpoints:    []EndpointState{{"a", "e", true}, {"a", "e", false}, {"a", "f", true}, {"a", "f", true}},
			Breakers:     []BreakerState{{"a", "e", 2}, {"a", "e", 0}, {"a", "f", 2}, {"a", "f", 1}, {"a", "g", 0}, {"a", "g", 0}},
			Certificates: []CertificateState{{"l", "c", time.Unix(3, 0)}, {"l", "c", time.Unix(2, 0)}},
		}
	})
	want := `gateway_breaker_state{endpoint="e",upstream="a"} 2
gateway_breaker_state{endpoint="f",upstream="a"} 1
gateway_breaker_state{endpoint="g",upstream="a"} 0
gateway_certificate_expiry_timestamp_seconds{certificate="c",listener="l"} 2
gateway_endpoint_healthy{endpoint="e",upstream="a"} 0
gateway_endpoint_healthy{endpoint="f",upstream="a"} 1`
	hasSamples(t, stateSamples(t, m), want)
}

func TestStateIsBounded(t *testing.T) {
	m := NewMetrics(2)
	m.ReadFrom(func() (s State) {
		for i := range 6 {
			name := fmt.Sprint("e", i)
			s.Endpoints = append(s.Endpoints, EndpointState{"a", name, i != 4})
			s.Breakers = append(s.Breakers, BreakerState{"a", name, []float64{1, 1, 0, 2, 0, 0}[i]})
			s.Certificates = append(s.Certificates, CertificateState{"l", name, time.Unix(int64(10-i), 0)})
		}
		return s
	})
	want := `gateway_breaker_state{endpoint="_other",upstream="_other"} 2
gateway_breaker_state{endpoint="e0",upstream="a"} 1
gateway_breaker_state{endpoint="e1",upstream="a"} 1
gateway_certificate_expiry_timestamp_seconds{certificate="_other",listener="_other"} 5
gateway_certificate_expiry_timestamp_seconds{certificate="e0",listener="l"} 10
gateway_certificate_expiry_timestamp_seconds{certificate="e1",listener="l"} 9
gateway_endpoint_healthy{endpoint="_other",upstream="_other"} 3
gateway_endpoint_healthy{endpoint="e0",upstream="a"} 1
gateway_endpoint_healthy{endpoint="e1",upstream="a"} 1`
	hasSamples(t, stateSamples(t, m), want)
}

func TestEventsAreCounted(t *testing.T) {
	m := NewMetrics(3)
	m.ExpectBreaker("a", "", "closed", "open")
	m.ExpectEjection("a", "e")
	m.BreakerChanged("a", "", "open")
	m.BreakerChanged("a", "", "open")
	m.BreakerChanged("b", "e", "half_open")
	m.BreakerChanged("b", "f", "open") // past the bound
	m.EndpointEjected("a", "f")
	for sample, want := range map[string]string{
		`gateway_breaker_transitions_total{endpoint="",to="closed",upstream="a"}`:            "0",
		`gateway_breaker_transitions_total{endpoint="",to="open",upstream="a"}`:              "2",
		`gateway_breaker_transitions_total{endpoint="e",to="half_open",upstream="b"}`:        "1",
		`gateway_breaker_transitions_total{endpoint="_other",to="_other",upstream="_other"}`: "1",
		`gateway_ejections_total{endpoint="e",upstream="a"}`:                                 "0",
		`gateway_ejections_total{endpoint="f",upstream="a"}`:                                 "1",
	} {
		if got := metric(t, m, sample); got != want {
			t.Errorf("%s is %q, not %s", sample, got, want)
		}
	}
}
