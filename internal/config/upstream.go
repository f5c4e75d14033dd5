package config

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/model"
)

// upstreamUse is a named upstream and whether a route uses it.
type upstreamUse struct {
	key   place
	in    *upstream       // nil where it is a URL
	built *model.Upstream // nil where it is broken
	used  bool
}

// upstreamsOf builds the upstreams that a document defines.
func (r *resolver) upstreamsOf(d *document) {
	for i := range d.Upstreams {
		e := &d.Upstreams[i]
		if use := r.upstreams[e.Key]; use.key == e.key && !e.Value.broken && e.Value.src != nil {
			use.in, use.built = &e.Value, r.upstream(e.Key, &e.Value)
			r.gateway.Upstreams = append(r.gateway.Upstreams, use.built)
		}
	}
}

func (r *resolver) upstream(name string, u *upstream) *model.Upstream {
	built := newUpstream(name, u)
	built.DNS = r.dns(u)
	r.endpoints(name, u, built)
	built.Balancer = r.balancer(u)
	built.TLS = r.clientTLS(u.TLS)
	r.spoken(name, u, built)
	built.Health = r.healthCheck(name, u, built.Protocol)
	built.Outlier = r.outlier(u)
	built.PanicThreshold, built.SlowStart = r.panicThreshold(u), time.Duration(u.SlowStart)
	built.Breaker = r.breaker(u)
	built.RateLimit = r.upstreamLimit(u)
	for _, limit := range []struct {
		key   string
		value int
	}{
		{"max_idle_per_endpoint", u.Pool.MaxIdle}, {"max_connections_per_endpoint", u.Pool.MaxConnections}, {"max_pending", u.Pool.MaxPending},
		{"max_streams_per_connection", u.Pool.MaxStreams},
	} {
		if limit.value < 0 {
			r.out.add(u.below("pool."+limit.key), limit.key+" must not be negative", "0 is without bound")
		}
	}
	return built
}

// endpoints takes the endpoints that are written out.
func (r *resolver) endpoints(name string, u *upstream, built *model.Upstream) {
	switch {
	case u.DNS != nil && u.Endpoints != nil:
		r.out.add(u.below("dns"), fmt.Sprintf("the upstream %s has endpoints and dns, which takes their place", name), "keep one of them")
	case u.DNS == nil && len(u.Endpoints) == 0:
		r.out.add(u.below("endpoints"), fmt.Sprintf("the upstream %s has no endpoints", name), "write endpoints: [http://HOST:PORT], or dns: {name: NAME, port: PORT}")
	}
	weights := make([]weight, len(u.Endpoints))
	seen := newNames(len(u.Endpoints))
	for i := range u.Endpoints {
		e := &u.Endpoints[i]
		endpoint, f := parseEndpoint(e.src.Dir, e.URL)
		if f != nil {
			r.out.add(e.below("url"), "url "+f.message, f.hint)
		}
		if e.Version != "" && !isToken(e.Version) {
			r.out.add(e.below("version"), fmt.Sprintf("version must be a label such as v1, not %s", short(e.Version)), "")
		}
		weights[i] = e.Weight
		endpoint.Weight, endpoint.Version = e.Weight.share, e.Version
		if f == nil && seen[endpoint.Place()] {
			r.out.warn(e.below("url"), fmt.Sprintf("the upstream %s has the endpoint %s twice", name, e.URL), "use weight to give it a greater share")
		}
		seen.note(endpoint.Place())
		built.Endpoints = append(built.Endpoints, endpoint)
	}
	divisor := r.weights(u.below("endpoints"), "the upstream "+name, "endpoint", weights)
	for i := range built.Endpoints {
		built.Endpoints[i].Weight /= divisor
	}
}

// spoken settles what endpoints speak, and whether that goes with their schemes.
func (r *resolver) spoken(name string, u *upstream, built *model.Upstream) {
	secure, plain := 0, 0
	mend := func(scheme string) string { return scheme + ":// for the endpoints" }
	if built.DNS != nil {
		mend = func(scheme string) string { return "scheme: " + scheme + " with dns" }
		secure, plain = boolInt(built.DNS.Scheme == "https"), boolInt(built.DNS.Scheme == "http")
	}
	for _, e := range built.Endpoints {
		if e.Scheme == "https" {
			secure++
		} else {
			plain++
		}
	}
	switch {
	case u.Protocol == "" && secure > 0:
		built.Protocol = model.UpstreamAuto
	case u.Protocol == "":
		built.Protocol = model.UpstreamHTTP1
	case u.Protocol == model.UpstreamH2 && plain > 0:
		r.out.add(u.below("protocol"), fmt.Sprintf("h2 is spoken over TLS, and the upstream %s has an endpoint without https", name), "write h2c, or "+mend("https"))
	case u.Protocol == model.UpstreamH2C && secure > 0:
		r.out.add(u.below("protocol"), fmt.Sprintf("h2c is spoken without TLS, and the upstream %s has an https endpoint", name), "write h2, or "+mend("http"))
	}
	if u.TLS != nil && secure == 0 && plain > 0 {
		r.out.add(u.below("tls"), fmt.Sprintf("the upstream %s has tls, but no endpoint with https", name), "write "+mend("https"))
	}
}

// weights checks the weights of endpoints, or of the sides of a split, together.
// They are to be divided by what it returns, which makes percentages small whole
// numbers.
func (r *resolver) weights(where place, whose, one string, list []weight) (divisor int) {
	sum, percent := 0, 0
	for _, w := range list {
		sum += w.share
		percent += boolInt(w.percent)
		divisor = gcd(divisor, w.share)
	}
	switch {
	case len(list) == 0:
	case sum == 0:
		r.out.add(where, fmt.Sprintf("all weights of %s are 0", whose), "give one "+one+" a weight above 0")
	case percent > 0 && percent < len(list):
		r.out.add(where, fmt.Sprintf("%s has weights with and without percent signs", whose), "write all of them as percentages, or none")
	case percent > 0 && sum != 100_00:
		r.out.add(where, fmt.Sprintf("the weights of %s add up to %v, not to 100%%", whose, weight{sum, true}), "")
	case percent > 0:
		return divisor
	}
	return 1
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func newUpstream(name string, u *upstream) *model.Upstream {
	return &model.Upstream{
		Name:     name,
		Balancer: model.Balancer{Policy: u.LoadBalancer.Policy},
		Pool: model.Pool{
			MaxIdle: u.Pool.MaxIdle, IdleTimeout: time.Duration(u.Pool.IdleTimeout), MaxConnections: u.Pool.MaxConnections, MaxPending: u.Pool.MaxPending,
			MaxStreams: u.Pool.MaxStreams,
		},
		Protocol: u.Protocol, ProxyProtocol: u.ProxyProtocol,
		Timeouts: model.AttemptTimeouts{Connect: time.Duration(u.Timeouts.Connect), ResponseHeader: time.Duration(u.Timeouts.ResponseHeader)},
	}
}

// upstreamNamed returns the upstream that a place names: one of its own where
// the name is a URL, shared by all places with the same. Relative paths are
// relative to dir. nil: a problem was reported.
func (r *resolver) upstreamNamed(where place, dir, name string) *model.Upstream {
	if path, ok := strings.CutPrefix(name, unixPrefix); ok && path != "" {
		name = unixPrefix + absolute(dir, path) // the same text is another path in another directory
	}
	use := r.upstreams[name]
	switch {
	case use != nil:
		use.used = true
		return use.built
	case isURL(name):
		endpoint, f := parseEndpoint(dir, name)
		if f != nil {
			r.out.add(where, "upstream "+f.message, f.hint)
			return nil
		}
		var defaults upstream
		defaults.SetDefaults()
		built := newUpstream(name, &defaults)
		built.Endpoints = []model.Endpoint{endpoint}
		r.spoken(name, &defaults, built)
		r.upstreams[name] = &upstreamUse{built: built, used: true}
		r.gateway.Upstreams = append(r.gateway.Upstreams, built)
		return built
	case r.incomplete:
		return nil
	}
	hint := r.out.hint(name, r.upstreamNames)
	if _, f := parseAddress("", name); f == nil && hint == "" {
		hint = "write http://" + name + " for a URL"
	}
	if hint == "" {
		hint = "define it under upstreams, or write a URL"
	}
	r.out.add(where, fmt.Sprintf("there is no upstream %s", short(name)), hint)
	return nil
}
