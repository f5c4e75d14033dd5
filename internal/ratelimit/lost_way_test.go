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
	"sluice/internal/redistest"
)

// ways are connections to a server of which those that were made so far can be lost: what is
// sent there does not arrive, and nobody says so.
type ways struct {
	address string
	made    atomic.Int64
	lost    atomic.Int64 // of those that were made
}

func newWays(t *testing.T, server string) *ways {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &ways{address: listener.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
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
			conn, err := new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(server, "unix:"))
			if err != nil {
				client.Close()
				continue
			}
			number := w.made.Add(1)
			context.AfterFunc(ctx, func() { client.Close(); conn.Close() })
			group.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(lossy{conn, func() bool { return number <= w.lost.Load() }}, client) // either has ended
			})
			group.Go(func() {
				defer client.Close()
				_, _ = io.Copy(client, conn) // either has ended
			})
		}
	})
	return w
}

// lossy takes what is written, and loses it if it is to.
type lossy struct {
	io.Writer
	loses func() bool
}

func (l lossy) Write(p []byte) (int, error) {
	if l.loses() {
		return len(p), nil
	}
	return l.Writer.Write(p)
}

// TestLostWays: where all connections lead nowhere any more while the server is well, few looks
// at it are enough to use it again, however many there are at rest.
func TestLostWays(t *testing.T) {
	d := newDatabase(t)
	w := newWays(t, d.Address)
	log := new(logged)
	l := instance(t, model.RedisStore{Address: w.address}, common(ratelimit.TokenBucket, quota(1_000_000, time.Second, 1_000_000)), log)
	redistest.Until(t, "many connections are made", func() bool { burstOf(l, 60); return w.made.Load() >= 30 })
	decided(t, l, "k", 1)
	w.lost.Store(w.made.Load())
	redistest.Until(t, "the outage is noticed", func() bool { return l.Take(nobody{}, "k", "", 1).StoreFailed && log.count("cannot be used") > 0 })
	began := time.Now()
	decided(t, l, "k", 1)
	if took := time.Since(began); took > 8*time.Second { // each look takes half a second
		t.Errorf("it is used again after %v", took)
	}
}
