package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/certificate"
	"sluice/internal/model"
)

// dialer connects to servers and sentinels; settings are nil where they speak no TLS.
func dialer(settings *model.ClientTLS, ages *ages) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := rawDialer(settings)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		made := time.Now()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return agedConn{conn, ages, address, made}, nil
	}
}

func rawDialer(settings *model.ClientTLS) func(ctx context.Context, network, address string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: dialTimeout}
	if settings == nil {
		return plain.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name := settings.ServerName
		if name == "" {
			name = hostOf(address)
		}
		config, err := clientConfig(settings, name)
		if err != nil {
			return nil, err
		}
		conn, err := (&tls.Dialer{NetDialer: plain, Config: config}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure, ok := conn.(*tls.Conn)
		if !ok {
			panic("BUG: TLS without TLS")
		}
		return secureConn{secure}, nil
	}
}

// hostOf is the name that a database's certificate bears; that of this machine on
// a Unix socket.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return "localhost"
}

// clientConfig is made for each connection, so that files which change are taken
// up.
func clientConfig(m *model.ClientTLS, name string) (*tls.Config, error) {
	material, err := certificate.ReadMaterial(m)
	if err != nil {
		return nil, fmt.Errorf("TLS of a store: %w", err)
	}
	config := material.Config()
	config.ServerName, config.InsecureSkipVerify = name, m.Insecure
	return config, nil
}

// secureConn lets the client see whether a connection at rest is still there, as it
// does without TLS by looking at the socket: else each connection that a restarted
// server has left would fail a command.
type secureConn struct{ *tls.Conn }

// errGone says that a connection at rest has ended. What a server says unasked is its
// farewell.
var errGone = errors.New("the connection has ended")

// SyscallConn fails for a connection that is of no use any more.
func (c secureConn) SyscallConn() (syscall.RawConn, error) {
	socket, ok := c.NetConn().(syscall.Conn)
	if !ok {
		panic("BUG: a connection without a socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	gone := true
	err = raw.Read(func(descriptor uintptr) bool {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(descriptor), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = !errors.Is(err, unix.EAGAIN)
		return true
	})
	if err != nil || gone {
		return nil, errGone
	}
	return raw, nil
}
