package ratelimit_test

import (
	"io"
	"net"
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
	w := new(ways)
	w.address = between(t, server, func(group *sync.WaitGroup, client, conn net.Conn) {
		number := w.made.Add(1)
		group.Go(func() {
			defer conn.Close()
			_, _ = io.Copy(lossy{conn, func() bool { return number <= w.lost.Load() }}, client) // either has ended
		})
		group.Go(func() {
			defer client.Close()
			_, _ = io.Copy(client, conn) // either has ended
		})
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
	redistest.Until(t, "the outage is noticed", func() bool { return l.Take(nobody{}, "k", "", 1).StoreFailed && log.Count("cannot be used") > 0 })
	began := time.Now()
	decided(t, l, "k", 1)
	if took := time.Since(began); took > 8*time.Second { // each look takes half a second
		t.Errorf("it is used again after %v", took)
	}
}
