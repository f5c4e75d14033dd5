package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"sluice/internal/lease"
)

// Listener is the address on which the API answers. It is held on lease by its
// address, so that a reload leaves it alone.
type Listener struct {
	address string
	listen  func(network, address string) (net.Listener, error)
	log     *slog.Logger
	server  *http.Server
	socket  net.Listener
}

// Acquire returns the listener of an address: host:port or unix:PATH.
func Acquire(set *lease.Set, address string, api *API, listen func(network, address string) (net.Listener, error)) *Listener {
	return lease.Acquire(set, "admin "+address, func() *Listener {
		return &Listener{address: address, listen: listen, log: api.log, server: &http.Server{
			Handler:           api,
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(api.log.Handler(), slog.LevelDebug),
		}}
	})
}

// Start binds the address and answers from then on.
func (l *Listener) Start() error {
	network, address := "tcp", l.address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	socket, err := l.listen(network, address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", l.address, err)
	}
	l.socket = socket
	go func() {
		if err := l.server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			l.log.Error("the admin API stopped", "address", l.address, "error", err)
		}
	}()
	return nil
}

// Release lets answers under way finish and closes the socket, without waiting.
func (l *Listener) Release() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if l.server.Shutdown(ctx) != nil { // a profile may run for longer
			_ = l.server.Close()
		}
	}()
}

// Addr is the bound address, after Start.
func (l *Listener) Addr() net.Addr { return l.socket.Addr() }

// File duplicates the socket for a new binary.
func (l *Listener) File() (*os.File, error) {
	socket, ok := l.socket.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("the socket of %s cannot be handed over", l.address)
	}
	return socket.File()
}
