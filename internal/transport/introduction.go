package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	proxyproto "github.com/pires/go-proxyproto"

	"sluice/internal/pipeline"
)

// proxyV2 is a value of model.Upstream.ProxyProtocol; the other is v1.
const proxyV2 = "v2"

// introduction is the PROXY header that begins the connection of an attempt, of a
// version; empty: none. It is also what tells connections apart: one that began
// with it serves those attempts alone that would begin with the same.
func introduction(version string, try *pipeline.Attempt) string {
	number := byte(1)
	switch version {
	case "":
		return ""
	case proxyV2:
		number = 2
	}
	var source, destination net.Addr
	if client := try.Client; client.IsValid() {
		local := try.Local
		if !local.IsValid() || client.Addr().Unmap().Is4() && !local.Addr().Unmap().Is4() {
			// An IPv4 address beside one of IPv6 would be mapped to that (RFC 4291
			// 2.5.5.2): fine for ours, but nobody would know the client by it.
			local = netip.AddrPortFrom(unspecified(client.Addr()), local.Port())
		}
		source, destination = net.TCPAddrFromAddrPort(client), net.TCPAddrFromAddrPort(local)
	}
	header, err := proxyproto.HeaderProxyFromAddrs(number, source, destination).Format()
	if err != nil {
		panic(fmt.Sprintf("BUG: a PROXY header from %v to %v: %v", try.Client, try.Local, err))
	}
	return string(header)
}

// begun says what comes before HTTP on a connection of goroutines: the
// introduction, and a TLS handshake that offers protocols. After an error raw is
// closed.
func (w *way) begun(ctx context.Context, raw net.Conn, introduction string, offer ...string) (conn net.Conn, err error) {
	if introduction == "" && w.encryption == nil {
		return raw, nil
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = raw.SetDeadline(longAgo) // writing the introduction knows no context
		close(interrupted)
	})
	defer func() {
		if !stop() {
			<-interrupted
			err = errors.Join(context.Cause(ctx), err)
		}
		if err != nil {
			_ = raw.Close() // nothing is to be saved
		}
	}()
	if introduction != "" {
		if _, err := io.WriteString(raw, introduction); err != nil {
			return nil, err
		}
	}
	if w.encryption == nil {
		return raw, nil
	}
	config, err := w.encryption.config(offer...)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secure, nil
}

var longAgo = time.Unix(1, 0)

// unspecified is the address that says nothing, of another's family.
func unspecified(address netip.Addr) netip.Addr {
	if address.Unmap().Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
