// Package model holds what a configuration means, once it is validated:
// immutable values that the router, the upstreams and the middleware are built
// from. It knows neither YAML nor sockets, and nothing in it runs.
//
// Values are shared between snapshots and goroutines; nobody changes one after
// it was built. Text gives each its canonical text: equal texts mean equal
// values, which is how state finds its owner again after a reload.
package model

import (
	"encoding/json"
	"net/netip"
	"slices"
	"time"
)

// Gateway is a whole configuration.
type Gateway struct {
	Listeners          []*Listener
	Upstreams          []*Upstream // named ones first, then those written as a URL in a route
	Routes             []*Route    // as written; the router puts them in matching order
	Stores             []*Store
	Admin              Admin
	AccessLog          AccessLog
	Engine             string // auto, loop or goroutine
	DrainTimeout       time.Duration
	MaxSeries          int // of one metric family
	ResponseTimeHeader bool
}

// Admin is where and how the admin API answers.
type Admin struct {
	Address string
	Token   string   // empty: none needed
	Public  []string // health, ready, metrics: what needs no token
	Hosts   []string // names it answers to besides loopback and its own address
	Name    string   // the pseudonym in Via; empty: a random one
	// Position is of the address; it is no part of what the value means.
	Position Position `json:"-"`
}

// AccessLog is where and how exchanges are logged.
type AccessLog struct {
	Output string   // stdout, stderr, none or an absolute path
	Format string   // json, common or combined
	Sample float64  // share of exchanges, 0 to 1
	Fields []string // of AccessLogFields; nil: all
	Skip   []string // canonical paths that are not logged
}

// AccessLogFields are the fields that a line of the access log can have, in
// the order in which it has them (SPEC 7).
var AccessLogFields = [...]string{
	"time", "request_id", "trace_id", "client_ip", "method", "host", "path", "protocol", "status", "error",
	"bytes_in", "bytes_out", "duration_ms", "upstream_ms", "gateway_ms",
	"route", "upstream", "endpoint", "version", "attempts", "user_agent", "consumer",
}

// Listener is an address that accepts connections.
type Listener struct {
	Name           string
	Address        string       // host:port or unix:PATH
	Protocols      []string     // of H1, H2 and H3, in that order
	TLS            *ListenerTLS // nil: cleartext
	ProxyProtocol  bool         // every connection begins with a PROXY header
	TrustedProxies []netip.Prefix
	HalfClose      bool // a client that closed its writing side is served on
	Timeouts       ListenerTimeouts
	Limits         ListenerLimits
	Paths          Paths
	// Position is of the address; it is no part of what the value means.
	Position Position `json:"-"`
}

// ListenerTimeouts bound how long a client may take. 0 means without bound.
type ListenerTimeouts struct {
	ReadHeader  time.Duration
	Idle        time.Duration
	MinBodyRate int64 // bytes a second
	// MaxAge is when a connection takes no further request, give or take a
	// tenth.
	MaxAge time.Duration
}

// ListenerLimits bound what a client may send. 0 means without bound.
type ListenerLimits struct {
	HeaderBytes int64
	Headers     int
	URIBytes    int64
	Connections int
	Body        int64
}

// Paths says how a listener reads paths.
type Paths struct {
	MergeSlashes bool
	EncodedSlash string // keep, refuse or decode
	Report       bool   // count and log what would be refused, and let it pass
}

// Trusts tells whether what address says of others is believed.
func (l *Listener) Trusts(address netip.Addr) bool {
	for _, prefix := range l.TrustedProxies {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// Speaks tells whether clients may speak a protocol. Where nothing is said they
// may speak HTTP/1.1.
func (l *Listener) Speaks(protocol string) bool {
	return slices.Contains(l.Protocols, protocol) || len(l.Protocols) == 0 && protocol == H1
}

// Text is the canonical text of any value of this package.
func Text(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("BUG: a model value has no text: " + err.Error())
	}
	return string(text)
}
