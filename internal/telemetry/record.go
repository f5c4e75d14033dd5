package telemetry

import (
	"net/netip"
	"time"
)

// Record is what an exchange leaves behind for its line in the access log: a
// plain copy that refers to nothing of the exchange. Strings may hold any
// bytes that a client can send; encoders make them harmless.
type Record struct {
	Time      time.Time // when the exchange began
	RequestID string
	TraceID   string
	ClientIP  netip.Addr // invalid: the peer has no address, as on a Unix socket

	Method   string
	Host     string // as the client sent it
	Path     string // canonical
	Query    string // with its leading "?", or empty
	Protocol string
	Status   int
	Error    string // the word of SPEC 4; empty: none

	BytesIn  int64
	BytesOut int64
	Duration time.Duration // from Time to the last byte
	// UpstreamDuration is the part of Duration in which the gateway waited for
	// heads of responses.
	UpstreamDuration time.Duration

	Route    string
	Upstream string
	Endpoint string
	Version  string
	Attempts int

	UserAgent string
	Referer   string
	Consumer  string
}

// gatewayDuration is what the exchange took without the upstream.
func (r *Record) gatewayDuration() time.Duration {
	return max(r.Duration-r.UpstreamDuration, 0)
}
