package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/model"
	"sluice/internal/redistest"
)

// TestRestart of a server is nothing that a script fails with: connections at rest that
// have ended meanwhile are noticed before they are used, with TLS as without.
func TestRestart(t *testing.T) {
	files := t.TempDir()
	pair(t, files, "good")
	address := redistest.FreeAddress(t)
	server := redistest.StartTCP(t, secure(files, address)...)
	good := filepath.Join(files, "good.pem")
	for name, m := range map[string]model.RedisStore{
		"plain": {Address: server.Address},
		"TLS":   {Address: address, TLS: &model.ClientTLS{CA: good, Cert: good, Key: filepath.Join(files, "good.key"), ServerName: "good"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := acquired(t, m)
			client, ok := s.Redis.(*redis.Client)
			if !ok {
				t.Fatalf("the client of one server is a %T", s.Redis)
			}
			var rest []*redis.Conn
			for range 3 {
				conn := client.Conn()
				rest = append(rest, conn)
				if err := conn.Ping(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for _, conn := range rest {
				if err := conn.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if idle := client.PoolStats().IdleConns; idle != 3 {
				t.Fatalf("%d connections rest", idle)
			}
			used := client.PoolStats().Hits
			if err := s.Once.Eval(t.Context(), "return 1", []string{"k"}).Err(); err != nil || client.PoolStats().Hits == used {
				t.Fatalf("a connection at rest is not used while it is well: %v", err)
			}
			server.Kill()
			server.Restart()
			for range 3 {
				if err := s.Once.Eval(t.Context(), "return 1", []string{"k"}).Err(); err != nil {
					t.Errorf("after a restart: %v", err)
				}
			}
		})
	}
}

// TestDistrust: connections at rest that were made to a server before a time are not used again,
// those that were made later or to others are.
func TestDistrust(t *testing.T) {
	server := redistest.StartTCP(t)
	s := acquired(t, model.RedisStore{Address: server.Address})
	client, ok := s.Redis.(*redis.Client)
	if !ok {
		t.Fatalf("the client of one server is a %T", s.Redis)
	}
	used := func() bool {
		t.Helper()
		made := client.PoolStats().Misses
		if err := s.Redis.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return client.PoolStats().Misses == made
	}
	used()
	s.Distrust("127.0.0.1:1", time.Now())
	if s.Distrust("", time.Now().Add(-time.Hour)); !used() {
		t.Error("a connection is not used that nobody distrusts")
	}
	for _, of := range []string{"", server.Address} {
		if s.Distrust(of, time.Now()); used() {
			t.Errorf("a connection is used that is distrusted as one to %q", of)
		}
		if !used() {
			t.Error("one that was made later is not used")
		}
	}
}
