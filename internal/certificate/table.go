package certificate

import (
	"crypto/tls"
	"net/netip"
	"strings"
	"time"
)

// table is certificates by what they are for. It is never changed.
type table struct {
	all       []*tls.Certificate // as configured; the first one is the default
	exact     map[string][]*tls.Certificate
	wildcard  map[string][]*tls.Certificate // by what follows "*."
	addresses map[netip.Addr][]*tls.Certificate
}

// newTable has each certificate serve for all of its subjectAltNames; a common
// name counts for nothing, as clients have it (RFC 9525).
func newTable(certificates []*tls.Certificate) *table {
	t := &table{
		all:       certificates,
		exact:     map[string][]*tls.Certificate{},
		wildcard:  map[string][]*tls.Certificate{},
		addresses: map[netip.Addr][]*tls.Certificate{},
	}
	for _, c := range certificates {
		for _, name := range c.Leaf.DNSNames {
			name = strings.TrimSuffix(strings.ToLower(name), ".")
			if parent, ok := strings.CutPrefix(name, "*."); ok {
				t.wildcard[parent] = append(t.wildcard[parent], c)
			} else {
				t.exact[name] = append(t.exact[name], c)
			}
		}
		for _, ip := range c.Leaf.IPAddresses {
			if address, ok := netip.AddrFromSlice(ip); ok {
				address = address.Unmap()
				t.addresses[address] = append(t.addresses[address], c)
			}
		}
	}
	return t
}

// match returns the certificate for what a client asks for: its name, or the
// address that it came to if it names none. nil: there is none.
func (t *table) match(hello *tls.ClientHelloInfo) *tls.Certificate {
	if hello.ServerName == "" {
		return first(t.addresses[local(hello)], hello)
	}
	name := strings.ToLower(hello.ServerName)
	exact := t.exact[name]
	if c := supported(exact, hello); c != nil {
		return c
	}
	var wildcard []*tls.Certificate
	if _, parent, ok := strings.Cut(name, "."); ok {
		wildcard = t.wildcard[parent]
	}
	if c := supported(wildcard, hello); c != nil {
		return c
	}
	// What the client does not support makes a clearer failure than another
	// name's certificate.
	if c := first(exact, hello); c != nil {
		return c
	}
	if c := first(wildcard, hello); c != nil {
		return c
	}
	// Some name an address, which RFC 6066 does not allow and nobody refuses.
	if address, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return first(t.addresses[address.Unmap()], hello)
	}
	return nil
}

// fallback returns the certificate for clients that match nothing: the first
// one, or if the client has no use for its kind of key, the first one that it
// has. nil: there is none at all.
func (t *table) fallback(hello *tls.ClientHelloInfo) *tls.Certificate {
	if len(t.all) > 1 && hello.ServerName != "" {
		nameless := *hello // supports looks at the name too
		nameless.ServerName = ""
		hello = &nameless
	}
	return first(t.all, hello)
}

// first is the first certificate that the client supports, else the first one.
func first(list []*tls.Certificate, hello *tls.ClientHelloInfo) *tls.Certificate {
	if len(list) == 0 {
		return nil
	}
	if len(list) > 1 {
		if c := supported(list, hello); c != nil {
			return c
		}
	}
	return list[0]
}

// supported is the first certificate that the client supports by its key type and
// that is valid now, else the first one that it supports, else nil.
func supported(list []*tls.Certificate, hello *tls.ClientHelloInfo) (outdated *tls.Certificate) {
	for _, c := range list {
		if hello.SupportsCertificate(c) != nil {
			continue
		}
		if len(list) == 1 || valid(c) {
			return c
		}
		if outdated == nil {
			outdated = c
		}
	}
	return outdated
}

func valid(c *tls.Certificate) bool {
	now := time.Now()
	return !now.Before(c.Leaf.NotBefore) && !now.After(c.Leaf.NotAfter)
}

// local is the address that the client came to; invalid where it has none.
func local(hello *tls.ClientHelloInfo) netip.Addr {
	if hello.Conn == nil {
		return netip.Addr{}
	}
	at, ok := hello.Conn.LocalAddr().(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return netip.Addr{}
	}
	return at.AddrPort().Addr().Unmap().WithZone("")
}
