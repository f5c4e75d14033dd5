package server_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"sluice/internal/lease"
	"sluice/internal/netloop"
	"sluice/internal/server"
)

// TestServeWithClientsWaiting starts listeners whose clients have connected
// already, on loops that hand connections to each other: nobody may wait for the
// loops with a lock that a first connection needs.
func TestServeWithClientsWaiting(t *testing.T) {
	ofEngine(t, "net/http accepts one by one")
	driver, err := netloop.NewLoops(8, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(driver.Stop)
	for range 30 {
		m := defaults()
		set := new(lease.Registry).NewSet()
		listener := server.Acquire(set, m, server.Options{Service: newService(text("ok")), Driver: driver})
		if err := set.Commit(); err != nil {
			t.Fatal(err)
		}
		var clients []*client
		for range 24 {
			clients = append(clients, dial(t, listener.Addr()).send(get("/")))
		}
		knocking, stopKnocking := context.WithCancel(t.Context())
		knocked := make(chan struct{})
		go func() {
			defer close(knocked)
			for knocking.Err() == nil {
				if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
					_ = conn.Close() // to connect was all
				}
			}
		}()
		listener.Serve(m)
		for _, c := range clients {
			if _, body := c.answer("GET"); body != "ok" {
				t.Errorf("%q", body)
			}
			c.Close()
		}
		stopKnocking()
		<-knocked
		if err := listener.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		set.Release()
	}
}
