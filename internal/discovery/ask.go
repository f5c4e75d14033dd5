package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// question is what a server is asked.
type question struct {
	name string // with its last dot
	kind uint16 // dns.TypeA, …
}

// reply is what records say. One without any says that there are none.
type reply struct {
	addresses []netip.Addr
	services  []*dns.SRV
	ttl       time.Duration // how long the records hold
}

func (r *reply) empty() bool { return len(r.addresses) == 0 && len(r.services) == 0 }

// forever is how long something holds that is no record.
const forever = time.Duration(1<<63 - 1)

// datagram is the size of a UDP message that passes everywhere unfragmented (RFC
// 9715, 3.1).
const datagram = 1232

// errServer is for a server that answers, but not to the question. Others may.
var errServer = errors.New("the name server cannot tell")

// ask puts a question to one server after the other, beginning with one of them,
// until one answers it; that there is no such name is an answer, too.
func (s *system) ask(ctx context.Context, at servers, begin int, q question) (reply, error) {
	var last error
	for range at.Attempts {
		for i := range at.Servers {
			server := at.Servers[(begin+i)%len(at.Servers)]
			m, err := s.exchange(ctx, at, server, q)
			if err == nil {
				return records(m), nil
			}
			last = fmt.Errorf("%s: %w", server, err)
		}
	}
	return reply{}, last
}

// exchange puts a question to one server.
func (s *system) exchange(ctx context.Context, at servers, server string, q question) (*dns.Msg, error) {
	m := new(dns.Msg).SetQuestion(q.name, q.kind).SetEdns0(datagram, false)
	r, err := s.send(ctx, at, at.network, server, m)
	if err == nil && (r.Rcode == dns.RcodeFormatError || r.Rcode == dns.RcodeNotImplemented) {
		// A server that does not know EDNS says so (RFC 6891, 7).
		m.Extra = nil
		r, err = s.send(ctx, at, at.network, server, m)
	}
	if err == nil && r.Truncated && at.network != "tcp" {
		r, err = s.send(ctx, at, "tcp", server, m)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case r.Rcode == dns.RcodeNameError:
		return r, nil
	case r.Rcode != dns.RcodeSuccess:
		return nil, fmt.Errorf("%w: it answers %s", errServer, dns.RcodeToString[r.Rcode])
	case len(r.Answer) == 0 && !r.Authoritative && !r.RecursionAvailable:
		return nil, fmt.Errorf("%w: it does not ask others, and the name is not of its own zones", errServer)
	}
	return r, nil
}

// send sends a message on a connection of its own, so that each goes out from
// another port (RFC 5452, 4.5), and returns what comes back.
func (s *system) send(ctx context.Context, at servers, network, server string, m *dns.Msg) (*dns.Msg, error) {
	limited, cancel := context.WithTimeout(ctx, at.timeout)
	defer cancel()
	r, err := s.once(limited, network, server, m)
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		return r, nil
	case limited.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return nil, fmt.Errorf("no answer from the name server within %s", at.timeout)
	}
	return nil, err
}

func (s *system) once(ctx context.Context, network, server string, m *dns.Msg) (*dns.Msg, error) {
	conn, err := s.dial(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // what came is here already
	// The library knows the context's deadline, not its end.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var client dns.Client
	if deadline, ok := ctx.Deadline(); ok {
		client.Timeout = time.Until(deadline)
	}
	r, _, err := client.ExchangeWithConnContext(ctx, m, &dns.Conn{Conn: conn})
	if err != nil {
		return nil, err
	}
	// What is not the answer to this question is somebody else's (RFC 5452, 9.1).
	if !r.Response || len(r.Question) != 1 || r.Question[0].Qtype != m.Question[0].Qtype || !strings.EqualFold(r.Question[0].Name, m.Question[0].Name) {
		return nil, errors.New("the name server answers another question")
	}
	return r, nil
}

// records reads an answer. Its aliases are not checked: the server has followed
// them.
func records(m *dns.Msg) reply {
	r := reply{ttl: forever}
	for _, rr := range m.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			r.add(netip.AddrFromSlice(rr.A))
		case *dns.AAAA:
			r.add(netip.AddrFromSlice(rr.AAAA))
		case *dns.SRV:
			r.services = append(r.services, rr)
		}
		// One with the highest bit set is zero (RFC 2181, 8).
		ttl := rr.Header().Ttl
		if ttl > 1<<31-1 {
			ttl = 0
		}
		r.ttl = min(r.ttl, time.Duration(ttl)*time.Second)
	}
	return r
}

func (r *reply) add(address netip.Addr, ok bool) {
	if address = address.Unmap(); ok && !slices.Contains(r.addresses, address) {
		r.addresses = append(r.addresses, address)
	}
}
