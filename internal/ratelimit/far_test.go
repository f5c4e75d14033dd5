package ratelimit_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// far is an address by which a server is so far away: what is sent there takes as long, and
// what comes back comes at once. It ends with the test.
func far(t testing.TB, address string, away time.Duration) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		listener.Close()
		group.Wait()
	})
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				client.Close()
				continue
			}
			end := func() {
				client.Close()
				server.Close()
			}
			stop := context.AfterFunc(ctx, end)
			way := make(chan parcel, 1000)
			group.Go(func() {
				defer stop()
				defer close(way)
				dispatch(client, way, away)
			})
			group.Go(func() {
				defer end()
				for p := range way {
					<-time.After(time.Until(p.due))
					if _, err := server.Write(p.bytes); err != nil {
						client.Close()
					}
				}
			})
			group.Go(func() {
				defer client.Close()
				back := make(chan parcel, 1000)
				group.Go(func() {
					defer close(back)
					dispatch(server, back, 0)
				})
				for p := range back {
					if _, err := client.Write(p.bytes); err != nil {
						server.Close()
					}
				}
			})
		}
	})
	return listener.Addr().String()
}

// parcel is bytes that arrive at a time.
type parcel struct {
	bytes []byte
	due   time.Time
}

// dispatch sends what comes from a connection on its way, until that ends.
func dispatch(from net.Conn, way chan<- parcel, away time.Duration) {
	for {
		buf := make([]byte, 4096)
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		way <- parcel{buf[:n], time.Now().Add(away)}
	}
}
