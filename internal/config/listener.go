package config

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"sluice/internal/model"
)

// mostListeners is more than anybody listens on; each is compared with each.
const mostListeners = 1000

// mostHeaderBytes bounds the header where the document sets no bound. There has to
// be one: a header is held in memory as a whole, whoever sends it.
const mostHeaderBytes = 1 << 20

func headerBytes(s Size) int64 {
	if s == 0 {
		return mostHeaderBytes
	}
	return int64(s)
}

// listenersOf builds the listeners that a document defines.
func (r *resolver) listenersOf(d *document) {
	for i := range d.Listeners {
		e := &d.Listeners[i]
		if r.listeners[e.Key] == e.key && !e.Value.broken && e.Value.src != nil {
			r.listener(e.Key, &e.Value)
		}
	}
}

func (r *resolver) listener(name string, l *listener) {
	built := &model.Listener{
		Name:      name,
		HalfClose: l.HalfClose == "serve",
		Timeouts: model.ListenerTimeouts{
			ReadHeader: time.Duration(l.Timeouts.ReadHeader), Idle: time.Duration(l.Timeouts.Idle), MinBodyRate: int64(l.Timeouts.MinBodyRate), MaxAge: time.Duration(l.Timeouts.MaxAge),
		},
		Limits: model.ListenerLimits{
			HeaderBytes: headerBytes(l.Limits.HeaderBytes), Headers: l.Limits.Headers, URIBytes: int64(l.Limits.URIBytes),
			Connections: l.Limits.Connections, Body: int64(l.Limits.Body),
		},
		Paths:          model.Paths{MergeSlashes: l.Paths.MergeSlashes, EncodedSlash: l.Paths.EncodedSlash, Report: l.Paths.Mode == "report"},
		TrustedProxies: prefixes(l.TrustedProxies),
	}
	built.TLS = r.tls(l)
	if built.ProxyProtocol = l.ProxyProtocol; l.ProxyProtocol && len(l.TrustedProxies) == 0 && !strings.HasPrefix(l.Address, unixPrefix) {
		r.out.add(l.below("proxy_protocol"), "proxy_protocol needs trusted_proxies: only they may connect", "write trusted_proxies: [10.0.0.0/8]")
	}
	for _, limit := range []struct {
		key   string
		value int
	}{{"headers", l.Limits.Headers}, {"connections", l.Limits.Connections}} {
		if limit.value < 0 {
			r.out.add(l.below("limits."+limit.key), limit.key+" must not be negative", "0 is without bound")
		}
	}
	address, f := parseAddress(l.src.Dir, l.Address)
	if f != nil {
		r.out.add(l.below("address"), "address "+f.message, f.hint)
		return
	}
	if len(r.gateway.Listeners) == mostListeners {
		r.out.add(l.place, fmt.Sprintf("there are more than %d listeners", mostListeners), "")
		return
	}
	for _, other := range r.gateway.Listeners {
		if clash(address, other.Address) {
			r.out.add(l.below("address"), fmt.Sprintf("the listeners %s and %s have the same address", other.Name, name), "give one of them another port")
		}
	}
	r.lookAtSocket(l.below("address"), address)
	built.Protocols = r.protocols(l, address)
	built.Address, built.Position = address, l.below("address").position()
	r.gateway.Listeners = append(r.gateway.Listeners, built)
}

func prefixes(list []Prefix) []netip.Prefix {
	if list == nil {
		return nil
	}
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = p.Prefix
	}
	return out
}
