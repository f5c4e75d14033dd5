package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sluice/internal/netloop"
)

type secureConn interface {
	netloop.Conn
	Handshake() error
	ConnectionState() tls.ConnectionState
	Pending() bool
}

func serveTLS(netloop.Conn, []byte, *tls.Config) secureConn { panic("BUG") }

type h2Opt struct {
	IdleTimeout, ReadHeaderTimeout time.Duration
	MaxHeaderBytes, MaxHeaders     int
	Preface                        []byte
	TLS                            *tls.ConnectionState
	Handler                        http.Handler
	Context                        func(context.Context) context.Context
	Log                            *slog.Logger
}
type h2Conn interface {
	GoAway()
	Close()
	Serve()
}

func newH2(net.Conn, h2Opt) h2Conn { panic("BUG") }
