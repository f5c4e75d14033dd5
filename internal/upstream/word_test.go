package upstream

import (
	"testing"
	"time"
)

func TestStateOfAnEndpointInWords(t *testing.T) {
	until := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, s := range map[string]EndpointStatus{
		"available":                  {Weight: 1, Available: true},
		"circuit breaker not closed": {Weight: 1},
		"of no weight":               {Health: "healthy"},
		"healthy":                    {Weight: 1, Available: true, Health: "healthy"},
		"healthy: status 500":        {Weight: 1, Available: true, Health: "healthy", Fault: "status 500"},
		"unknown":                    {Weight: 1, Health: "unknown"},
		"unhealthy: status 500":      {Weight: 1, Health: "unhealthy", Fault: "status 500"},
		"unhealthy: status 500 (panic: used nonetheless)": {Weight: 1, Available: true, Health: "unhealthy", Fault: "status 500"},
		"drained": {Weight: 1, Drained: true, Health: "healthy"},
		"ejected until 2030-01-02T03:04:05Z, 2 in a row":                                          {Weight: 1, Ejected: &until, Ejections: 2},
		"drained; ejected until 2030-01-02T03:04:05Z, 1 in a row; unhealthy: no answer within 2s": {Weight: 1, Drained: true, Ejected: &until, Ejections: 1, Health: "unhealthy", Fault: "no answer within 2s"},
	} {
		if got := s.State(); got != want {
			t.Errorf("%+v is %q, not %q", s, got, want)
		}
	}
	for fit, list := range map[bool][]EndpointStatus{
		true:  {{}, {Health: "healthy"}, {Health: "unknown"}},
		false: {{Drained: true}, {Ejected: &until}, {Health: "unhealthy", Available: true}},
	} {
		for _, s := range list {
			if s.Fit() != fit {
				t.Errorf("%+v is fit: %v", s, !fit)
			}
		}
	}
}
