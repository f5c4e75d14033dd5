package ratelimit_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/ratelimit"
)

// far is an address by which a Redis is so far away. It ends with the test.
func far(t *testing.T, d database, away time.Duration) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		listener.Close()
		group.Wait()
	})
	carry := func(to, from net.Conn, away time.Duration) {
		defer to.Close()
		buf := make([]byte, 4096)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			<-time.After(away)
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(d.Address, "unix:"))
			if err != nil {
				client.Close()
				return
			}
			context.AfterFunc(ctx, func() { _ = io.Closer(client).Close() })
			group.Go(func() { carry(server, client, away) })
			group.Go(func() { carry(client, server, 0) })
		}
	})
	return listener.Addr().String()
}

// TestPool: as many decisions at once as there are connections are made by a store that is
// far away; more than that wait for none, and are no outage.
func TestPool(t *testing.T) {
	d := newDatabase(t)
	const clients, each = 32, 10
	for _, c := range []struct {
		size  int
		fails bool
	}{{0, false}, {1, true}} {
		log := new(logged)
		s := common(ratelimit.TokenBucket, quota(1_000_000, time.Second, 1_000_000))
		l := instance(t, model.RedisStore{Address: far(t, d, 10*time.Millisecond), PoolSize: c.size}, s, log)
		// The first opens connections; and a busy machine may take more than 50 ms for a
		// decision, which is an outage.
		for try := 1; ; try++ {
			decided(t, l, "k", 1)
			outages := log.count("cannot be used")
			var failed atomic.Int64
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					for range each {
						if l.Take(nobody{}, "k", "", 1).StoreFailed {
							failed.Add(1)
						}
					}
				})
			}
			group.Wait()
			n := failed.Load()
			outages = log.count("cannot be used") - outages
			t.Logf("with pool_size %d %d of %d decisions failed, %d outages", c.size, n, clients*each, outages)
			if outages == 0 && n > 0 == c.fails {
				break
			}
			if try == 20 {
				t.Errorf("with pool_size %d %d of %d decisions failed: %s", c.size, n, clients*each, log.buf.String())
				break
			}
		}
	}
}
