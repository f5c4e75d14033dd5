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
	built *model.Upstream // nil where it is broken
	used  bool
}

// upstreamsOf builds the upstreams that a document defines.
func (r *resolver) upstreamsOf(d *document) {
	for i := range d.Upstreams {
		e := &d.Upstreams[i]
		if use := r.upstreams[e.Key]; use.key == e.key && !e.Value.broken && e.Value.src != nil {
			use.built = r.upstream(e.Key, &e.Value)
			r.gateway.Upstreams = append(r.gateway.Upstreams, use.built)
		}
	}
}

func (r *resolver) upstream(name string, u *upstream) *model.Upstream {
	built := newUpstream(name, u)
	if len(u.Endpoints) == 0 {
		r.out.add(u.below("endpoints"), fmt.Sprintf("the upstream %s has no endpoints", name), "write endpoints: [http://HOST:PORT]")
	}
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
		endpoint.Weight, endpoint.Version = e.Weight.share, e.Version
		if f == nil && seen[endpoint.Address+endpoint.BasePath] {
			r.out.warn(e.below("url"), fmt.Sprintf("the upstream %s has the endpoint %s twice", name, e.URL), "use weight to give it a greater share")
		}
		seen.note(endpoint.Address + endpoint.BasePath)
		built.Endpoints = append(built.Endpoints, endpoint)
	}
	r.weights(name, u, built)
	built.TLS = r.clientTLS(u.TLS)
	r.spoken(name, u, built)
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

// spoken settles what endpoints speak, and whether that goes with their schemes.
func (r *resolver) spoken(name string, u *upstream, built *model.Upstream) {
	secure, plain := 0, 0
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
		r.out.add(u.below("protocol"), fmt.Sprintf("h2 is spoken over TLS, and the upstream %s has an endpoint without https", name), "write h2c, or https:// for the endpoint")
	case u.Protocol == model.UpstreamH2C && secure > 0:
		r.out.add(u.below("protocol"), fmt.Sprintf("h2c is spoken without TLS, and the upstream %s has an https endpoint", name), "write h2, or http:// for the endpoint")
	}
	if u.TLS != nil && secure == 0 && len(u.Endpoints) > 0 {
		r.out.add(u.below("tls"), fmt.Sprintf("the upstream %s has tls, but no endpoint with https", name), "write https:// for the endpoints")
	}
}

// weights checks the weights of endpoints together, and makes percentages
// small whole numbers.
func (r *resolver) weights(name string, u *upstream, built *model.Upstream) {
	sum, percent, divisor := 0, 0, 0
	for _, e := range u.Endpoints {
		sum += e.Weight.share
		percent += boolInt(e.Weight.percent)
		divisor = gcd(divisor, e.Weight.share)
	}
	report := func(message, hint string) { r.out.add(u.below("endpoints"), message, hint) }
	switch {
	case len(u.Endpoints) == 0:
	case sum == 0:
		report(fmt.Sprintf("all weights of the upstream %s are 0", name), "give one endpoint a weight above 0")
	case percent > 0 && percent < len(u.Endpoints):
		report(fmt.Sprintf("the upstream %s has weights with and without percent signs", name), "write all of them as percentages, or none")
	case percent > 0 && sum != 100_00:
		report(fmt.Sprintf("the weights of the upstream %s add up to %v, not to 100%%", name, weight{sum, true}), "")
	case percent > 0:
		for i := range built.Endpoints {
			built.Endpoints[i].Weight /= divisor
		}
	}
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

// destination returns the upstream that a route names: one of its own where it
// is a URL, shared by all routes with the same. nil: a problem was reported.
func (r *resolver) destination(in *route, name string) *model.Upstream {
	if path, ok := strings.CutPrefix(name, unixPrefix); ok && path != "" {
		name = unixPrefix + absolute(in.src.Dir, path) // the same text is another path in another directory
	}
	use := r.upstreams[name]
	switch {
	case use != nil:
		use.used = true
		return use.built
	case isURL(name):
		endpoint, f := parseEndpoint(in.src.Dir, name)
		if f != nil {
			r.out.add(in.below("upstream"), "upstream "+f.message, f.hint)
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
	r.out.add(in.below("upstream"), fmt.Sprintf("there is no upstream %s", short(name)), hint)
	return nil
}
