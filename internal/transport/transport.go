// Package transport sends attempts to endpoints: it owns the connections, their
// pools and their limits, and says what went wrong. It chooses no endpoint,
// rewrites no request and knows no route; what it is given goes out as it is.
//
// HTTP/1.1 is spoken by the engine: wire over netloop. HTTP/2 is spoken by a
// library, over connections that are made and shared here (sharing, session,
// flight, relay). The files named standard* are the adapter to net/http's
// Transport, for tests.
package transport

import (
	"context"
	"net"
	"strings"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// Observer is told of connections, for metrics. The zero value and every nil
// function are fine. The functions are called from many goroutines and must not
// block.
type Observer struct {
	Opened func(upstream, endpoint string) // a connection was made
	Reused func(upstream, endpoint string) // an attempt took a connection that had served before
	Closed func(upstream, endpoint string) // a connection that was told as opened is closed
	// Faulty is told once of each fault of a file that the TLS settings name; until
	// it is mended the last good one is used.
	Faulty func(upstream string, err error)
	// Unreached is told why no connection could be made, TLS and ALPN included: of
	// each cause once a minute for an endpoint, and of a few causes at most.
	Unreached func(upstream, endpoint string, cause error)
}

// dialer makes a connection; network is tcp or unix.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// settings are what a transport's identity has beside its upstream's name and its
// endpoint: all that shapes its connections.
type settings struct {
	Pool          model.Pool
	Timeouts      model.AttemptTimeouts
	Protocol      string
	TLS           *model.ClientTLS
	ProxyProtocol string
}

// way is how an endpoint is reached: what all transports to it have in common.
type way struct {
	upstream      string
	endpoint      model.Endpoint
	settings      model.Pool
	timeouts      model.AttemptTimeouts
	encryption    *encryption // nil: none
	proxyProtocol string      // version of the PROXY header; empty: none
	observer      Observer
	complaints    complaints
}

func newWay(upstream *model.Upstream, endpoint model.Endpoint, observer Observer, c *credentials) *way {
	w := &way{
		upstream: upstream.Name, endpoint: endpoint, settings: upstream.Pool, timeouts: upstream.Timeouts,
		proxyProtocol: upstream.ProxyProtocol, observer: observer,
	}
	if c != nil {
		w.encryption = newEncryption(c, hostOf(endpoint))
	}
	return w
}

// hostOf is the name that an endpoint's certificate bears.
func hostOf(endpoint model.Endpoint) string {
	authority := endpoint.Address
	if strings.HasPrefix(authority, "unix:") {
		authority = endpoint.Host
	}
	if host, _, err := net.SplitHostPort(authority); err == nil {
		return host
	}
	return authority
}

func (w *way) opened() {
	if w.observer.Opened != nil {
		w.observer.Opened(w.upstream, w.endpoint.URL)
	}
}

func (w *way) reused() {
	if w.observer.Reused != nil {
		w.observer.Reused(w.upstream, w.endpoint.URL)
	}
}

func (w *way) closed() {
	if w.observer.Closed != nil {
		w.observer.Closed(w.upstream, w.endpoint.URL)
	}
}

// Acquire returns the transport to an endpoint of an upstream. It is shared with
// every snapshot whose upstream of that name has the same address with the same
// settings, so its connections outlive reloads; the observer is that of the first
// of them. Files that the TLS settings name are read when a connection is made.
//
// When the last set that holds it is released, idle connections close at once,
// exchanges and tunnels under way go on, and their connections close with them.
//
// A nil engine stands for net/http's Transport.
func Acquire(set *lease.Set, upstream *model.Upstream, endpoint model.Endpoint, observer Observer, engine *Engine) pipeline.Transport {
	var c *credentials
	if endpoint.Scheme == "https" {
		key := strings.Join([]string{"credentials", upstream.Name, model.Text(upstream.TLS)}, "\n")
		c = lease.Acquire(set, key, func() *credentials { return newCredentials(upstream.Name, upstream.TLS, observer.Faulty) })
	}
	identity := settings{upstream.Pool, upstream.Timeouts, upstream.Protocol, upstream.TLS, upstream.ProxyProtocol}
	kind := "transport"
	if engine != nil {
		kind = "transport\nengine"
	}
	key := strings.Join([]string{kind, upstream.Name, endpoint.Scheme, endpoint.Address, endpoint.Host, model.Text(identity)}, "\n")
	w := newWay(upstream, endpoint, observer, c)
	switch {
	case upstream.Protocol == model.UpstreamH2, upstream.Protocol == model.UpstreamH2C:
		return lease.Acquire(set, key, func() *sharing { return newSharing(w, engine) })
	case upstream.Protocol == model.UpstreamAuto && c != nil:
		return lease.Acquire(set, key, func() *choice { return newChoice(w, engine) })
	case engine != nil:
		return lease.Acquire(set, key, func() *pool { return newPool(w, engine) })
	}
	return lease.Acquire(set, key, func() *standard { return newStandard(w, dialDirect) })
}

// dialDirect connects to an address, by whichever of those that its name has
// answers first.
func dialDirect(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// network returns what a dialer needs to reach an endpoint.
func network(endpoint model.Endpoint) (name, address string) {
	if path, ok := strings.CutPrefix(endpoint.Address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", endpoint.Address
}
