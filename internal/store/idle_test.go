package store_test

import (
	"testing"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/store"
)

// TestStoreThatIsNotUsed begins nothing: TestMain looks for what is left of it.
func TestStoreThatIsNotUsed(*testing.T) {
	set := new(lease.Registry).NewSet()
	store.Acquire(set, named(model.RedisStore{Address: "127.0.0.1:1"}))
	store.Acquire(set, named(model.RedisStore{Sentinel: &model.RedisSentinel{Master: "m", Addresses: []string{"127.0.0.1:1"}}}))
	store.Acquire(set, named(model.RedisStore{Cluster: []string{"127.0.0.1:1"}}))
	set.Release() // it was never committed, so nobody closes the clients
}
