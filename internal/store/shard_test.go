package store_test

import (
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/model"
	"sluice/internal/redistest"
)

// TestSentinelOverTLS logs in with the sentinel and with the master that it tells, each
// in its own way, and speaks TLS to both.
func TestSentinelOverTLS(t *testing.T) {
	files := t.TempDir()
	pair(t, files, "good")
	good, key := filepath.Join(files, "good.pem"), filepath.Join(files, "good.key")
	master, watcher := redistest.FreeAddress(t), redistest.FreeAddress(t)
	redistest.Start(t, append(secure(files, master), "--requirepass", "of the master")...)
	_, port, _ := strings.Cut(watcher, ":")
	redistest.StartSentinel(t, master,
		"tls-port "+port, "tls-cert-file "+good, "tls-key-file "+key, "tls-ca-cert-file "+good, "tls-replication yes",
		"requirepass \"of the sentinel\"", "sentinel auth-pass "+redistest.MasterName+" \"of the master\"")
	s := acquired(t, model.RedisStore{
		Sentinel: &model.RedisSentinel{Master: redistest.MasterName, Addresses: []string{watcher}, Password: "of the sentinel"},
		Password: "of the master", Database: 2, TLS: &model.ClientTLS{CA: good, Cert: good, Key: key, ServerName: "good"},
	})
	redistest.Until(t, "the master answers", func() bool { return s.Redis.Set(t.Context(), "k", "v", 0).Err() == nil })
	if shard, err := s.Shard(t.Context(), "k"); shard != "" || err != nil {
		t.Errorf("the one master is the shard %q, %v", shard, err)
	}
}

// TestClusterOverTLS speaks TLS to servers that others have told of.
func TestClusterOverTLS(t *testing.T) {
	files := t.TempDir()
	pair(t, files, "good")
	good, key := filepath.Join(files, "good.pem"), filepath.Join(files, "good.key")
	address, bus := redistest.FreeAddress(t), redistest.FreeAddress(t)
	_, port, _ := strings.Cut(bus, ":")
	server := redistest.StartTCP(t, append(secure(files, address), "--cluster-enabled", "yes", "--cluster-port", port, "--tls-cluster", "yes")...)
	server.Must("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	s := acquired(t, model.RedisStore{Cluster: []string{address}, TLS: &model.ClientTLS{CA: good, Cert: good, Key: key, ServerName: "good"}})
	redistest.Until(t, "it answers", func() bool { return s.Redis.Set(t.Context(), "k", "v", 0).Err() == nil })
	if shard, err := s.Shard(t.Context(), "k"); shard == "" || err != nil {
		t.Errorf("the key is on %q, %v", shard, err)
	}
}

// TestShards are the servers that have keys; nobody can tell before one has answered.
func TestShards(t *testing.T) {
	c := redistest.StartCluster(t, 2, 0)
	s := acquired(t, model.RedisStore{Cluster: c.Addresses()})
	seen := map[string]bool{}
	for _, k := range []string{"{a}", "{b}", "{c}", "{d}", "{e}", "{f}"} {
		redistest.Until(t, "the cluster tells", func() bool {
			shard, err := s.Shard(t.Context(), k)
			seen[shard] = err == nil
			return err == nil
		})
	}
	if !seen[c.Masters[0].Address] || !seen[c.Masters[1].Address] || len(seen) != 2 {
		t.Errorf("the shards are %v of %v", seen, c.Addresses())
	}
	none := acquired(t, model.RedisStore{Cluster: []string{"127.0.0.1:1"}})
	if shard, err := none.Shard(t.Context(), "k"); err == nil {
		t.Errorf("of nobody it is told that %q has a key", shard)
	}
}
