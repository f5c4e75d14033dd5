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
	return between(t, address, func(group *sync.WaitGroup, client, server net.Conn) {
		group.Go(func() {
			defer server.Close()
			carry(group, client, server, away)
		})
		group.Go(func() {
			defer client.Close()
			carry(group, server, client, 0)
		})
	})
}

// between is an address whose connections pass has in hand, each with one to a server. They
// and what pass has begun end with the test.
func between(t testing.TB, address string, pass func(group *sync.WaitGroup, client, server net.Conn)) string {
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
			context.AfterFunc(ctx, func() { client.Close(); server.Close() })
			pass(&group, client, server)
		}
	})
	return listener.Addr().String()
}

// carry takes what comes from a connection to another one, which is so far away. It returns
// when that has ended, or the other takes no more.
func carry(group *sync.WaitGroup, from, to net.Conn, away time.Duration) {
	way := make(chan parcel, 1000)
	group.Go(func() {
		defer close(way)
		dispatch(from, way, away)
	})
	for p := range way {
		<-time.After(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			from.Close() // dispatch ends by that
		}
	}
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
