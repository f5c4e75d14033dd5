// Package transport sends attempts to endpoints: it owns the connections, their
// pools and their limits, and says what went wrong. It chooses no endpoint,
// rewrites no request and knows no route; what it is given goes out as it is.
//
// HTTP/1.1 is spoken by the engine: wire over netloop. The files named standard*
// are the adapter to net/http's Transport; nothing else here knows it.
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

// Acquire returns the transport to an endpoint of an upstream. It is shared with
// every snapshot whose upstream of that name has the same address with the same
// settings, so its connections outlive reloads; the observer is that of the first
// of them.
//
// When the last set that holds it is released, idle connections close at once,
// exchanges and tunnels under way go on, and their connections close with them.
//
// A nil engine stands for net/http's Transport.
func Acquire(set *lease.Set, upstream *model.Upstream, endpoint model.Endpoint, observer Observer, engine *Engine) pipeline.Transport {
	identity := settings{upstream.Pool, upstream.Timeouts, upstream.Protocol, upstream.TLS, upstream.ProxyProtocol}
	key := strings.Join([]string{upstream.Name, endpoint.Scheme, endpoint.Address, model.Text(identity)}, "\n")
	if engine != nil {
		return lease.Acquire(set, "transport\nengine\n"+key, func() *pool {
			return newPool(upstream.Name, endpoint, upstream.Pool, upstream.Timeouts, observer, engine)
		})
	}
	return lease.Acquire(set, "transport\n"+key, func() *standard {
		return newStandard(upstream.Name, endpoint, upstream.Pool, upstream.Timeouts, observer, (&net.Dialer{}).DialContext)
	})
}

// network returns what a dialer needs to reach an endpoint.
func network(endpoint model.Endpoint) (name, address string) {
	if path, ok := strings.CutPrefix(endpoint.Address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", endpoint.Address
}
