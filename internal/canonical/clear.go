package canonical

import (
	"net/netip"
	"net/url"
)

// InClear tells whether what is asked of a URL goes over a network without TLS.
func InClear(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "http" && !Loopback(u.Host)
}

// Loopback tells whether an authority names this machine alone, so that what is sent there
// meets no network (RFC 6761 6.3).
func Loopback(authority string) bool {
	host := Host(authority)
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}
