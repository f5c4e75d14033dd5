package config

import "time"

// document is what one document may say.
type document struct {
	located
	Include      []string        `config:"include" doc:"more documents: paths or globs, relative to this file"`
	Listeners    Map[listener]   `config:"listeners" doc:"the addresses that accept connections, by name"`
	Engine       string          `config:"engine" enum:"auto|loop|goroutine" doc:"what drives connections"`
	DrainTimeout Duration        `config:"drain_timeout" doc:"how long exchanges may finish after SIGTERM; a second signal ends at once"`
	ResponseTime bool            `config:"response_time_header" doc:"whether responses bear X-Response-Time, in milliseconds"`
	Admin        admin           `config:"admin" doc:"the admin API"`
	AccessLog    accessLog       `config:"access_log" doc:"one line for each exchange"`
	Tracing      Later           `config:"tracing"`
	Metrics      metrics         `config:"metrics" doc:"what Prometheus reads"`
	Stores       Map[store]      `config:"stores" doc:"databases that several instances share, by name"`
	Middleware   Map[definition] `config:"middleware" doc:"middleware by name, for reuse: each a mapping of one kind to its options"`
	Global       []step          `config:"global" doc:"the chain of every route, outermost first: names, or mappings of one kind to its options"`
	Upstreams    Map[upstream]   `config:"upstreams" doc:"groups of endpoints that serve the same thing, by name"`
	Routes       []route         `config:"routes" doc:"what happens to which requests"`
}

// SetDefaults sets the defaults of SPEC 3.
func (d *document) SetDefaults() {
	d.Engine = "auto"
	d.DrainTimeout = Duration(20 * time.Second)
	d.Admin.SetDefaults()
	d.AccessLog.SetDefaults()
	d.Metrics.MaxSeries = 5000
}

type admin struct {
	located
	Address string   `config:"address" doc:"where it listens: host:port or unix:PATH; anything but loopback needs a token"`
	Token   Secret   `config:"token" doc:"what calls must bring as a bearer token; empty: none needed"`
	Public  []string `config:"public" enum:"health|ready|metrics" doc:"what needs no token"`
	Hosts   []string `config:"hosts" doc:"names that it answers to besides loopback and its own address"`
	Name    string   `config:"name" doc:"how this gateway calls itself in Via" default:"random"`
	History Later    `config:"history"`
}

// SetDefaults sets the defaults of SPEC 3.
func (a *admin) SetDefaults() {
	a.Address = "127.0.0.1:9901"
	a.Public = []string{"health", "ready"}
}

type accessLog struct {
	located
	Output string   `config:"output" doc:"where lines go: stdout, stderr, none or a path"`
	Format string   `config:"format" enum:"json|common|combined" doc:"how a line is written"`
	Sample Percent  `config:"sample" doc:"the share of exchanges that is logged"`
	Fields []string `config:"fields" enum:"time|request_id|trace_id|client_ip|method|host|path|protocol|status|error|bytes_in|bytes_out|duration_ms|upstream_ms|gateway_ms|route|upstream|endpoint|version|attempts|user_agent|consumer" doc:"the fields of a JSON line, which has them in this order, however they are written here" default:"all"`
	Skip   []string `config:"skip" doc:"paths that are not logged"`
}

// SetDefaults sets the defaults of SPEC 3.
func (l *accessLog) SetDefaults() {
	l.Output, l.Format, l.Sample = "stdout", "json", 1
}

type metrics struct {
	located
	MaxSeries int `config:"max_series_per_family" doc:"past so many a series goes to _other"`
}

type listener struct {
	located
	Address        string           `config:"address,required" doc:"where it listens: host:port, :port or unix:PATH"`
	Protocols      []string         `config:"protocols" enum:"h1|h2|h2c|h3" doc:"what clients may speak, all on one port; without tls h2 is h2c" default:"[h1, h2]"`
	TLS            *listenerTLS     `config:"tls" doc:"how it speaks TLS" default:"none"`
	TrustedProxies []Prefix         `config:"trusted_proxies" doc:"whose X-Forwarded-* and Forwarded are believed"`
	ProxyProtocol  bool             `config:"proxy_protocol" doc:"true: every connection must begin with a PROXY header, of version 1 or 2, and only trusted_proxies may connect; on a Unix socket, whoever may use the file"`
	Timeouts       listenerTimeouts `config:"timeouts" doc:"how long a client may take; 0 is without bound"`
	Limits         listenerLimits   `config:"limits" doc:"how much a client may send; 0 is without bound, but for the header's size"`
	Paths          paths            `config:"paths" doc:"how paths are read"`
	HalfClose      string           `config:"half_close" enum:"cancel|serve" doc:"what a client that closed its writing side gets: its exchange is cancelled, or served"`
}

// SetDefaults sets the defaults of SPEC 3.
func (l *listener) SetDefaults() {
	l.Timeouts = listenerTimeouts{ReadHeader: Duration(10 * time.Second), Idle: Duration(120 * time.Second), MinBodyRate: 240}
	l.Limits = listenerLimits{HeaderBytes: 64 << 10, Headers: 100, URIBytes: 16 << 10}
	l.Paths = paths{MergeSlashes: true, EncodedSlash: "keep", Mode: "enforce"}
	l.HalfClose = "cancel"
}

type listenerTimeouts struct {
	ReadHeader  Duration `config:"read_header" doc:"until the whole header has come"`
	Idle        Duration `config:"idle" doc:"between two requests"`
	MinBodyRate ByteRate `config:"min_body_rate" doc:"the slowest that a body may come"`
	MaxAge      Duration `config:"max_age" doc:"how old a connection may be to take another request, give or take a tenth; 0: any"`
}

type listenerLimits struct {
	HeaderBytes Size `config:"header_bytes" doc:"size of the header; more is 431; 0 is 1MiB, as a header is held in memory as a whole"`
	Headers     int  `config:"headers" doc:"number of fields in the header; more is 431"`
	URIBytes    Size `config:"uri_bytes" doc:"size of the request target; more is 414"`
	Connections int  `config:"connections" doc:"connections that are open at once"`
	Body        Size `config:"body" doc:"size of a request's body; more is 413"`
}

type paths struct {
	MergeSlashes bool   `config:"merge_slashes" doc:"whether repeated slashes are one"`
	EncodedSlash string `config:"encoded_slash" enum:"keep|refuse|decode" doc:"what happens to %2F and %5C"`
	Mode         string `config:"mode" enum:"enforce|report" doc:"whether a bad path is refused, or only counted and logged"`
}

type upstream struct {
	located
	Endpoints        []endpoint        `config:"endpoints" doc:"the addresses; a URL alone is a short form"`
	DNS              *dns              `config:"dns" doc:"instead of endpoints: where they are looked up" default:"none"`
	Protocol         string            `config:"protocol" enum:"http1|h2|h2c|auto" doc:"what endpoints speak; auto is what they pick of h2 and HTTP/1.1 by ALPN" default:"http1; auto with https endpoints"`
	LoadBalancer     loadBalancer      `config:"load_balancer" doc:"how endpoints are chosen"`
	HealthCheck      *healthCheck      `config:"health_check" doc:"how endpoints are asked for their health" default:"off"`
	OutlierDetection *outlierDetection `config:"outlier_detection" doc:"when an endpoint gets nothing for a while because of its answers" default:"off"`
	PanicThreshold   *Percent          `config:"panic_threshold" doc:"with a smaller share of the endpoints available health and ejection are ignored; 0%: never" default:"30% with health_check, else 0%"`
	SlowStart        Duration          `config:"slow_start" doc:"how long an endpoint that comes back takes to get its whole share"`
	CircuitBreaker   *circuitBreaker   `config:"circuit_breaker" doc:"when the upstream gets nothing for a while" default:"off"`
	Pool             pool              `config:"pool" doc:"connections to one endpoint; 0 is without bound"`
	Timeouts         attemptTimeouts   `config:"timeouts" doc:"bounds of one attempt; 0: the route's timeout alone rules"`
	RateLimit        *upstreamLimit    `config:"rate_limit" doc:"how many exchanges it gets, from all routes together; more are 429" default:"any number"`
	TLS              *clientTLS        `config:"tls" doc:"how TLS is spoken to https endpoints"`
	ProxyProtocol    string            `config:"proxy_protocol" enum:"v1|v2" doc:"the version of the PROXY header that begins each connection, with the client's address" default:"none"`
}

// SetDefaults sets the defaults of SPEC 3.
func (u *upstream) SetDefaults() {
	u.LoadBalancer.Policy = "round_robin"
	u.Pool = pool{MaxIdle: 256, IdleTimeout: Duration(55 * time.Second), MaxPending: 1024, MaxStreams: 100}
	u.Timeouts.Connect = Duration(2 * time.Second)
}

type endpoint struct {
	located
	URL     string `config:"url,required" doc:"where it is: http://host:port or https://host:port, with a base path if need be, or unix:PATH"`
	Weight  weight `config:"weight" doc:"its share, relative to the others': a whole number, or percentages that add up to 100%"`
	Version string `config:"version" doc:"the label of a release, as v1"`
}

// SetDefaults gives an endpoint the weight of the others.
func (e *endpoint) SetDefaults() { e.Weight.share = 1 }

func (*endpoint) want() string { return "a URL or a mapping with url, weight and version" }

func (e *endpoint) setText(s scalar) *fault {
	if !s.loose && s.nature() != isText {
		return unwanted("")
	}
	e.URL = s.s
	return nil
}

type pool struct {
	MaxIdle        int      `config:"max_idle_per_endpoint" doc:"connections that are kept without work"`
	IdleTimeout    Duration `config:"idle_timeout" doc:"how long they are kept"`
	MaxConnections int      `config:"max_connections_per_endpoint" doc:"connections at once"`
	MaxPending     int      `config:"max_pending" doc:"exchanges that wait for one; 0: none may"`
	MaxStreams     int      `config:"max_streams_per_connection" doc:"exchanges at once on one HTTP/2 connection"`
}

type attemptTimeouts struct {
	Connect        Duration `config:"connect" doc:"to make a connection"`
	ResponseHeader Duration `config:"response_header" doc:"from the end of the request to the response's head"`
}

type route struct {
	located
	ID           *string   `config:"id" doc:"a unique name" default:"derived from the match"`
	Priority     int       `config:"priority" doc:"smaller first"`
	Listeners    []string  `config:"listeners" doc:"names of the listeners whose requests it takes" default:"all"`
	Match        match     `config:"match" doc:"what a request must be; all conditions must hold"`
	Middleware   []step    `config:"middleware" doc:"the chain after global, outermost first: names, or mappings of one kind to its options"`
	Skip         []string  `config:"skip" doc:"kinds or names of middleware of global that are left out"`
	StripPrefix  bool      `config:"strip_prefix" doc:"drops the matched path_prefix; at least / is left"`
	Rewrite      *rewrite  `config:"rewrite" doc:"what the endpoint is asked instead"`
	Upstream     *string   `config:"upstream" doc:"a destination: the name of an upstream, or a URL as a short form"`
	Split        []side    `config:"split" doc:"a destination: several upstreams, each with its share" default:"none"`
	Redirect     *redirect `config:"redirect" doc:"a destination: another URL"`
	Respond      *respond  `config:"respond" doc:"a destination: a fixed response"`
	Timeout      Duration  `config:"timeout" doc:"from the end of the request to the response's head, all attempts and waits together; 0 is without bound"`
	IdleTimeout  *Duration `config:"idle_timeout" doc:"no byte in either direction for so long; 0 is without bound" default:"60s; 5m for event streams, gRPC streams and upgraded connections"`
	TotalTimeout Duration  `config:"total_timeout" doc:"the whole exchange; 0 is without bound"`

	Retry       *retry  `config:"retry" doc:"when an exchange is tried again" default:"off: a request is only replayed where its reused connection was dead"`
	Sticky      *sticky `config:"sticky" doc:"with split: what keeps a user on one side" default:"off"`
	ForceHeader *string `config:"force_header" doc:"with split: the request's field whose value, where it is the version of a side, leads there" default:"X-Canary-Version"`
	Failover    bool    `config:"failover" doc:"with split: true: a side without an available endpoint gives its share to the others"`
	Release     Later   `config:"release"`
}

// SetDefaults sets the defaults of SPEC 3.
func (r *route) SetDefaults() {
	r.Priority = 100
	r.Timeout = Duration(30 * time.Second)
}

type match struct {
	Hosts      []string       `config:"hosts" doc:"host names; *.example.com for any below example.com"`
	Path       *pathText      `config:"path" doc:"the whole path; {name} or :name takes one segment, {name...} or * at the end the rest"`
	PathPrefix *pathText      `config:"path_prefix" doc:"the path's beginning, whole segments"`
	PathRegex  *string        `config:"path_regex" doc:"a regular expression (RE2), anchored as written"`
	Methods    []string       `config:"methods" doc:"any of them; GET includes HEAD"`
	Headers    Map[condition] `config:"headers" doc:"conditions on header fields"`
	Query      Map[condition] `config:"query" doc:"conditions on query parameters"`
	Cookies    Map[condition] `config:"cookies" doc:"conditions on cookies"`
	ClientIP   []Prefix       `config:"client_ip" doc:"any of these addresses or ranges"`
}

// condition is what the first value of a name must be: a text alone, or one of
// the two checks.
type condition struct {
	located
	Value   *string
	Regex   *string `config:"regex" doc:"a regular expression (RE2) that it matches"`
	Present *bool   `config:"present" doc:"true: it is there; false: it is not"`
}

func (*condition) want() string {
	return "a text, {regex: …} or {present: true}"
}

func (c *condition) setText(s scalar) *fault {
	if !s.loose && s.nature() != isText {
		return unwanted("put it into quotes: \"" + s.s + "\"")
	}
	c.Value = &s.s
	return nil
}

type rewrite struct {
	Path *Template `config:"path" doc:"the path, with placeholders; the query stays"`
	Host *Template `config:"host" doc:"the Host that the endpoint sees: preserve, upstream, or a host" default:"preserve"`
}

type redirect struct {
	To     Template `config:"to,required" doc:"a URL or a path, with placeholders; it keeps the query unless it has one"`
	Status int      `config:"status" doc:"one of 301, 302, 303, 307 and 308"`
}

// SetDefaults makes a redirect a temporary one.
func (r *redirect) SetDefaults() { r.Status = 302 }

type respond struct {
	Status  int           `config:"status" doc:"from 200 to 599"`
	Body    *Template     `config:"body" doc:"the body, with placeholders" default:"none"`
	Headers Map[Template] `config:"headers" doc:"fields, with placeholders"`
}

// SetDefaults makes a response a good one.
func (r *respond) SetDefaults() { r.Status = 200 }

// pathText is the text of a path or pattern, with what came from outside.
type pathText struct{ text }

func (*pathText) want() string { return "a path such as /users" }

func (p *pathText) set(s scalar) *fault {
	if s.nature() != isText {
		return unwanted("")
	}
	p.text = s.text
	return nil
}
