package store_test

import (
	"path/filepath"
	"testing"

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
