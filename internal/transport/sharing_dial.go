package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// connect makes a connection in a place that is taken.
func (p *sharing) connect(introduction string) error {
	s, err := p.dial(p.life, introduction)
	if err == nil {
		p.join(s, introduction)
		return nil
	}
	p.mu.Lock()
	p.dialed(introduction)
	p.places--
	p.refuse(introduction, err)
	p.mu.Unlock()
	p.serve()
	return err
}

// dialed notes that a connection is not being made any more. The caller holds the
// lock.
func (p *sharing) dialed(introduction string) {
	if p.dialing[introduction]--; p.dialing[introduction] == 0 {
		delete(p.dialing, introduction)
	}
}

// begin makes a connection for nobody in particular, if there is a place for it.
func (p *sharing) begin(introduction string) error {
	p.mu.Lock()
	full := p.full()
	if !full {
		p.places++
		p.dialing[introduction]++
	}
	p.mu.Unlock()
	if full { // of those that have agreed
		return nil
	}
	return p.connect(introduction)
}

// dial makes a connection, within the upstream's time-out.
func (p *sharing) dial(ctx context.Context, introduction string) (*session, error) {
	if p.timeouts.Connect > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeouts.Connect)
		defer cancel()
	}
	name, address := network(p.endpoint)
	raw, err := (&net.Dialer{}).DialContext(ctx, name, address)
	if err != nil {
		return nil, p.unconnected(context.Background(), nil, err, false) //nolint:contextcheck // its end is no end of an attempt: those who wait are told of err
	}
	conn, err := p.begun(ctx, raw, introduction, p.offer...)
	if err == nil {
		if err = p.agreed(conn); err != nil {
			part(conn)
		}
	}
	var s *session
	if err == nil {
		s, err = p.newSession(ctx, conn, introduction)
	}
	if err != nil && !errors.Is(err, errDeclined) {
		err = p.unconnected(context.Background(), nil, err, false) //nolint:contextcheck // its end is no end of an attempt: those who wait are told of err
	}
	return s, err
}

// errDeclined is for an endpoint that picked HTTP/1.1 where it could.
var errDeclined = errors.New("the endpoint speaks HTTP/1.1")

// agreed tells why a connection is not for HTTP/2.
func (p *sharing) agreed(conn net.Conn) error {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	switch picked := secure.ConnectionState().NegotiatedProtocol; {
	case picked == alpnH2:
		if p.agreedOn != nil {
			p.agreedOn()
		}
		return nil
	case p.declined != nil:
		p.declined()
		return errDeclined
	case picked == "":
		return errors.New("the endpoint does not speak HTTP/2: it picked no protocol of those offered by ALPN")
	default:
		return fmt.Errorf("the endpoint does not speak HTTP/2: it picked %q by ALPN", picked)
	}
}

// scheme is that of requests.
func (p *sharing) scheme() string {
	if p.clear {
		return "http"
	}
	return p.endpoint.Scheme
}
