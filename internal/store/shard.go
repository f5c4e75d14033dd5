package store

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Shard is the address of the server that has a key, as far as is known; the same for
// all keys where the store is no cluster. Before a cluster has told of its servers it
// is asked for them, until ctx is done.
func (s *Store) Shard(ctx context.Context, key string) (string, error) {
	cluster, ok := s.Redis.(*redis.ClusterClient)
	if !ok {
		return "", nil
	}
	server, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return "", err
	}
	return server.Options().Addr, nil
}

// Refresh has a cluster asked again which server has which keys. It does not wait.
func (s *Store) Refresh(ctx context.Context) {
	if cluster, ok := s.Redis.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}
