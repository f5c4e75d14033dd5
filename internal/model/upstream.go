package model

import (
	"regexp"
	"time"
)

// Upstream is a named group of endpoints that serve the same thing.
type Upstream struct {
	Name      string
	Endpoints []Endpoint // none where DNS is set
	DNS       *DNS       // where the endpoints are looked up; nil: they are written out
	Balancer  Balancer
	Protocol  string     // UpstreamHTTP1, UpstreamH2, UpstreamH2C or UpstreamAuto; one for all endpoints
	TLS       *ClientTLS // of endpoints with the scheme https; nil: as the system trusts
	// ProxyProtocol begins each connection with a PROXY header of this version, v1
	// or v2; empty: none.
	ProxyProtocol string
	Pool          Pool
	Timeouts      AttemptTimeouts

	Health  *HealthCheck      // nil: none
	Outlier *OutlierDetection // nil: none
	// PanicThreshold is the share of the endpoints, 0 to 1, under which health and
	// ejection are ignored; 0: never.
	PanicThreshold float64
	SlowStart      time.Duration   // how long an endpoint that comes back takes to get its whole share; 0: none
	Breaker        *CircuitBreaker // nil: none
	RateLimit      *RateLimit      // of all its exchanges together; nil: none
}

// RateLimit is how much is let through in which time, and how much at once.
type RateLimit struct {
	Count int64
	Per   time.Duration
	Burst int64
}

// Endpoint is one address of an upstream.
type Endpoint struct {
	URL      string // as written, for people: scheme, address and base path
	Scheme   string // http or https
	Address  string // host:port or unix:PATH
	Host     string // the authority for rewrite.host: upstream
	BasePath string // canonical, without a last slash; empty for none
	Weight   int
	Version  string
}

// Place is where the endpoint is, however its URL is written: equal places are the
// same endpoint of an upstream.
func (e *Endpoint) Place() string { return e.Scheme + "://" + e.Address + e.BasePath }

// DNS is where the endpoints of an upstream are looked up.
type DNS struct {
	Name   string
	Port   int    // of the endpoints; 0: SRV records tell it
	Scheme string // http or https
	// Refresh is the longest time between two look-ups; records that live shorter
	// are looked up sooner.
	Refresh time.Duration
	// Resolver is the name server, host:port; empty: those of the system.
	Resolver string
}

// The policies of a load balancer.
const (
	RoundRobin       = "round_robin"
	LeastConnections = "least_connections"
	PowerOfTwo       = "p2c_ewma"
	RandomChoice     = "random"
	ConsistentHash   = "consistent_hash"
	StickyCookie     = "sticky_cookie"
)

// Balancer is how endpoints are chosen.
type Balancer struct {
	Policy string
	HashOn *Key          // of ConsistentHash
	Cookie string        // the name, of StickyCookie
	TTL    time.Duration // how long a client keeps the cookie; 0: for its session
}

// Key is what of an exchange identifies something: a user, a client.
type Key struct {
	Source KeySource
	Name   string // of the header, cookie, query parameter or claim
	// IPv6Prefix is how many bits of an address of IPv6 count, from the first; 0: all.
	// Left out of the text where it is 0: a store knows limits by the text of their keys.
	IPv6Prefix int `json:",omitzero"`
}

// String is the key as one writes it, without a prefix.
func (k Key) String() string {
	if k.Name == "" {
		return string(k.Source)
	}
	return string(k.Source) + ":" + k.Name
}

// KeySource is where a key is taken from.
type KeySource string

// The sources of keys.
const (
	KeyHeader   KeySource = "header"
	KeyCookie   KeySource = "cookie"
	KeyQuery    KeySource = "query"
	KeyClaim    KeySource = "jwt"
	KeyClientIP KeySource = "client_ip"
)

// The sources of keys of limits alone.
const (
	KeyGlobal   KeySource = "global"
	KeyRoute    KeySource = "route"
	KeyUpstream KeySource = "upstream" // the one that the route leads to; of a split, all its sides as one
	KeyConsumer KeySource = "consumer"
)

// HealthCheck is how an upstream's endpoints are asked for their health.
type HealthCheck struct {
	Type           string // http, tcp or grpc
	Path           string // of http; the endpoint's base path is not put before it
	Host           string // of http and grpc; empty: the endpoint's
	Service        string // of grpc; empty: the whole server
	Interval       time.Duration
	Timeout        time.Duration
	HealthyAfter   int // successes in a row
	UnhealthyAfter int // failures in a row
	ExpectStatus   []StatusRange
	ExpectBody     *regexp.Regexp // of http; nil: any
}

// StatusRange is the statuses from First to Last.
type StatusRange struct{ First, Last int }

// OutlierDetection is when an endpoint gets nothing for a while because of what
// its exchanges came to.
type OutlierDetection struct {
	Consecutive   int     // failures in a row; 0: does not matter
	ErrorRate     float64 // 0 to 1; 0: does not matter
	MinRequests   int     // for ErrorRate
	BaseEjection  time.Duration
	MaxEjected    float64 // share of the endpoints, 0 to 1
	FailureStatus []int   // sorted
}

// The scopes of a circuit breaker.
const (
	ScopeUpstream = "upstream"
	ScopeEndpoint = "endpoint"
)

// CircuitBreaker is when an upstream, or an endpoint, gets nothing for a while.
type CircuitBreaker struct {
	Scope         string
	Window        time.Duration
	MinRequests   int     // within Window, for ErrorRate and SlowCall
	ErrorRate     float64 // 0 to 1; 0: does not matter
	Consecutive   int     // failures in a row; 0: does not matter
	SlowCall      *SlowCall
	FailureStatus []int // sorted
	OpenFor       time.Duration
	MaxConcurrent int // attempts at once while it is half open
	Successes     int // that close it
	Fallback      *Fallback
}

// SlowCall is when slow answers open a circuit breaker.
type SlowCall struct {
	LongerThan time.Duration
	Rate       float64 // 0 to 1
}

// Fallback is what clients get while a circuit breaker is open: another
// upstream's answer, or a fixed one.
type Fallback struct {
	Upstream *Upstream
	Respond  *Respond
}

// Pool bounds the connections to one endpoint. 0 means without bound, but for
// MaxPending, where it means that nobody waits.
type Pool struct {
	MaxIdle        int
	IdleTimeout    time.Duration
	MaxConnections int
	MaxPending     int
	MaxStreams     int // at once on one HTTP/2 connection
}

// AttemptTimeouts bound one attempt. 0 means that the route's time-out rules.
type AttemptTimeouts struct {
	Connect        time.Duration
	ResponseHeader time.Duration
}
