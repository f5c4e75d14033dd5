package store_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/redistest"
	"sluice/internal/store"
)

// acquired is a store that is used until the test ends.
func acquired(t *testing.T, m model.RedisStore) *store.Store {
	t.Helper()
	set := new(lease.Registry).NewSet()
	s := store.Acquire(set, named(m))
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Release)
	return s
}

// lossy passes connections on to a server. It cuts the one by which the next answer
// comes once it is told to.
type lossy struct {
	net.Listener
	cuts atomic.Bool
}

func newLossy(t *testing.T, server string) *lossy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &lossy{Listener: listener}
	t.Cleanup(func() { _ = l.Close() }) // whoever listens no more serves no more
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go l.pass(client, server)
		}
	}()
	return l
}

func (l *lossy) pass(client net.Conn, address string) {
	defer client.Close() // the client sees that it is gone
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, client) // one of the two has ended
		_ = server.Close()
	}()
	buffer := make([]byte, 4096)
	for {
		n, err := server.Read(buffer)
		if err != nil || l.cuts.CompareAndSwap(true, false) {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestOnce runs a script once where its answer is lost, on a server and in a cluster. The
// client as such repeats it: that is why there is Once.
func TestOnce(t *testing.T) {
	server := redistest.StartTCP(t)
	one := newLossy(t, server.Address)
	cluster := redistest.StartCluster(t, 1, 0).Masters[0]
	many := newLossy(t, cluster.Address)
	_, port, _ := strings.Cut(many.Addr().String(), ":")
	cluster.Must("CONFIG", "SET", "cluster-announce-port", port)
	for name, c := range map[string]struct {
		way    *lossy
		server *redistest.Server
		store  *store.Store
	}{
		"server":  {one, server, acquired(t, model.RedisStore{Address: one.Addr().String()})},
		"cluster": {many, cluster, acquired(t, model.RedisStore{Cluster: []string{many.Addr().String()}})},
	} {
		t.Run(name, func(t *testing.T) {
			add := redis.NewScript("return redis.call('INCR', KEYS[1])")
			for key, by := range map[string]redis.Scripter{"once": c.store.Once, "again": c.store.Redis} {
				for range 2 { // the first time by its text
					if err := add.Run(t.Context(), by, []string{key}).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			c.way.cuts.Store(true)
			if err := add.Run(t.Context(), c.store.Once, []string{"once"}).Err(); err == nil {
				t.Error("an answer that is lost has come")
			}
			if err := c.store.Redis.Get(t.Context(), "again").Err(); err != nil { // it connects again
				t.Fatal(err)
			}
			c.way.cuts.Store(true)
			if err := add.Run(t.Context(), c.store.Redis, []string{"again"}).Err(); err != nil {
				t.Error(err)
			}
			if once, again := c.server.Must("GET", "once"), c.server.Must("GET", "again"); once != "3" || again != "4" {
				t.Errorf("the script ran %v times by Once, and %v times by the client", once, again)
			}
		})
	}
}
