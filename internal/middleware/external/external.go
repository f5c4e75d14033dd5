// Package external holds the kind external_auth, which asks a service of somebody
// else's whether a request may pass: by HTTP, as proxies ask before they forward, or by
// Envoy's gRPC protocol. What is decided here is how that is asked and obeyed; whoever
// cannot be asked allows nothing, unless the configuration says so.
package external

import (
	"slices"
	"strings"
	"time"

	"sluice/internal/canonical"
	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/pemfile"
	"sluice/internal/pipeline"
)

// Options are the options of external_auth.
type Options struct {
	HTTP           *HTTPOptions    `config:"http" doc:"a service that is asked by a request of HTTP"`
	GRPC           *GRPCOptions    `config:"grpc" doc:"a service that speaks Envoy's ext_authz (v3)"`
	Body           *BodyOptions    `config:"body" doc:"{}: it is told the body, too, which is held in memory meanwhile" default:"it is not told the body"`
	Timeout        config.Duration `config:"timeout" doc:"how long the service may take, a minute at most"`
	OnFailure      string          `config:"on_failure" enum:"deny|allow" doc:"what becomes of requests while it cannot be asked, or gives no sense: deny answers 503"`
	ConsumerHeader string          `config:"consumer_header" doc:"the header field of an allowing answer that names the consumer; no request has it otherwise"`
	GroupsHeader   string          `config:"groups_header" doc:"alike, the groups of the consumer, with commas between them"`
	Cache          *CacheOptions   `config:"cache" doc:"remembers decisions"`
}

// HTTPOptions are how a service is asked by HTTP.
type HTTPOptions struct {
	URL             string      `config:"url,required" doc:"what is asked for: by GET, with body by POST"`
	RequestHeaders  []string    `config:"request_headers" doc:"header fields of the request that it is told, besides Authorization and Cookie"`
	ResponseHeaders []string    `config:"response_headers" doc:"header fields of an allowing answer that the upstream is told; no request has them otherwise"`
	ClientHeaders   []string    `config:"client_headers" doc:"header fields of an allowing answer that the client is told, as Set-Cookie"`
	TLS             *TLSOptions `config:"tls" doc:"for https"`
}

// GRPCOptions are how a service is asked by gRPC.
type GRPCOptions struct {
	Address           string             `config:"address,required" doc:"host:port, or unix:PATH"`
	TLS               *TLSOptions        `config:"tls" doc:"speaks TLS to it; {} is enough where the system trusts its authority" default:"none"`
	ContextExtensions config.Map[string] `config:"context_extensions" doc:"what it is told beside the request"`
	DropHeaders       []string           `config:"drop_headers" doc:"header fields that it alone sets: no request has them otherwise"`
}

// TLSOptions are how TLS is spoken to a service. Files that change are taken up.
type TLSOptions struct {
	CA         *config.File `config:"ca" doc:"a PEM file: the authorities that its certificate must come from" default:"the system's"`
	Cert       *config.File `config:"cert" doc:"a PEM file: the certificate to show"`
	Key        *config.File `config:"key" doc:"a PEM file: its private key"`
	ServerName string       `config:"server_name" doc:"the name that its certificate must have" default:"the host of the address"`
}

// BodyOptions are how much of the body of a request a service is told.
type BodyOptions struct {
	Max     config.Size `config:"max" doc:"how much of it at most"`
	Partial bool        `config:"partial" doc:"true: of a larger one it is told the beginning. Else such a request is 413"`
	Raw     bool        `config:"raw" doc:"with grpc, true: it is told by raw_body, byte for byte. Else by body, where bytes that are no UTF-8 are !"`
}

// SetDefaults sets how much a service is told.
func (o *BodyOptions) SetDefaults() { o.Max = 64 << 10 }

// CacheOptions are how decisions are remembered.
type CacheOptions struct {
	TTL        config.Duration `config:"ttl,required" doc:"for how long"`
	Key        []string        `config:"key" doc:"what a decision depends on: method, host, path, query, body, client_ip, route, consumer, header:NAME or cookie:NAME" default:"with http all that the service is told"`
	MaxEntries int             `config:"max_entries" doc:"how many are remembered; past it those that were not asked for lately are forgotten"`
}

// SetDefaults sets how many decisions are remembered.
func (o *CacheOptions) SetDefaults() { o.MaxEntries = 10_000 }

// settings are those of external_auth. Exactly one of HTTP and GRPC is set.
type settings struct {
	HTTP    *httpSettings
	GRPC    *grpcSettings
	Body    *bodySettings // nil: it is not told
	Timeout time.Duration
	Allow   bool // on failure
	// Drop are the fields of requests that the service alone sets.
	Drop     []string
	Consumer string // a field's name; empty: none
	Groups   string // alike
	Cache    *cacheSettings
}

type httpSettings struct {
	URL         string
	Told        []string // fields of the request, Authorization and Cookie among them
	ToUpstream  []string
	ToClient    []string
	TLS         *pemfile.Client // nil: the system's authorities
	Description string          // for the log: no query, no secret
}

type grpcSettings struct {
	Address    string
	TLS        *pemfile.Client // nil: in clear
	Extensions []extension
}

type extension struct{ Name, Value string }

type cacheSettings struct {
	TTL time.Duration
	Key []part // nil: all that the service is told
	Max int
}

// Auth is the kind external_auth: a service decides whether a request passes. What it
// refuses is answered as it says; where it cannot be asked, 503 auth_unavailable.
func Auth() pipeline.Kind {
	kind := pipeline.NewKind("external_auth", func() *Options {
		return &Options{Timeout: config.Duration(time.Second), OnFailure: "deny"}
	}, validate, build)
	return pipeline.Warn(pipeline.RoleOf(kind, (*settings).role), (*settings).warn)
}

// role is of one that keeps requests out, and that tells who a client is if a field of its
// answers does. Where its decisions are remembered by that, others have to tell it.
func (s *settings) role() model.Role {
	role := model.Refusing
	if s.Consumer != "" || s.Groups != "" {
		role |= model.Identifying
	}
	if s.Cache != nil && slices.Contains(s.Cache.Key, part{Source: ofConsumer}) {
		role |= model.Telling
	}
	return role
}

// warn reports a service that is told credentials over a network without TLS, and one whose
// decisions are taken for those of other bodies.
func (s *settings) warn(report model.Report) {
	const message = "the service is asked in clear: whoever is in between reads what clients prove themselves by, and can let anybody pass"
	switch {
	case s.HTTP != nil && canonical.InClear(s.HTTP.URL):
		report("http.url", message, "use https")
	case s.GRPC != nil && s.GRPC.TLS == nil && !strings.HasPrefix(s.GRPC.Address, "unix:") && !canonical.Loopback(s.GRPC.Address):
		report("grpc.address", message, "write tls: {}")
	}
	if s.Body != nil && s.Cache != nil && s.Cache.Key != nil && !slices.Contains(s.Cache.Key, part{Source: ofBody}) {
		report("cache.key", "the service is told bodies, and one decision counts for all of them", "add body to the key")
	}
}
