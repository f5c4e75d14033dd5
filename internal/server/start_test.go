package server_test

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/netloop"
	"sluice/internal/server"
)

// eager is a driver that has taken a connection before Listen returns, as loops
// may while they wait for each other.
type eager struct {
	*netloop.Goroutines
	t *testing.T
}

func (e eager) Listen(socket net.Listener, handler netloop.Handler, options netloop.ListenOptions) (netloop.Acceptor, error) {
	taken := make(chan struct{}, 1)
	accepted := options.Accepted
	options.Accepted = func(conn netloop.Conn) bool {
		defer func() { taken <- struct{}{} }()
		return accepted(conn)
	}
	acceptor, err := e.Goroutines.Listen(socket, handler, options)
	if err != nil {
		return nil, err
	}
	select {
	case <-taken:
	case <-time.After(patience):
		e.t.Error("a connection waits for what Serve holds")
	}
	return acceptor, nil
}

// TestServeWhileAClientWaits: nobody waits for the driver with a lock that its
// first connections need.
func TestServeWhileAClientWaits(t *testing.T) {
	ofEngine(t, "it is about the engine's driver")
	inner := netloop.NewGoroutines(slog.New(slog.DiscardHandler))
	t.Cleanup(inner.Stop)
	m := defaults()
	set := new(lease.Registry).NewSet()
	listener := server.Acquire(set, m, server.Options{Service: newService(text("ok")), Driver: eager{inner, t}})
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, listener.Addr()).send(get("/"))
	listener.Serve(m, nil)
	if _, body := c.answer("GET"); body != "ok" {
		t.Errorf("%q", body)
	}
	c.Close()
	if err := listener.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	set.Release()
}
