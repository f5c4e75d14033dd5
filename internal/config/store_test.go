package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
	"sluice/internal/model"
)

// fromOutside has a variable of every name, which has its name as its value.
func fromOutside() config.Environment {
	return config.Environment{LookupEnv: func(name string) (string, bool) { return name, true }}
}

// TestStoresWritten has each way to say where a Redis is.
func TestStoresWritten(t *testing.T) {
	result := config.Resolve([]config.Document{{Name: "sluice.yaml", Dir: "/etc/sluice", Data: []byte(`
listeners: {web: {address: ":8080"}}
stores:
  one: {redis: {pool_size: 7, address: "Redis.test:6379", username: u, password: "${p}", database: 2, tls: {}}}
  socket: {redis: {address: "unix:redis.sock"}}
  watched: {redis: {sentinel: {master: m, addresses: ["b.test:26379", "a.test:26379"], username: su, password: "${sp}"}, password: "${p}", database: 3}}
  many: {redis: {cluster: {addresses: ["[::1]:7001", "a.test:7000"]}, tls: {server_name: redis.test}}}
routes: [{match: {path: /}, respond: {status: 204}}]
`)}}, nil, fromOutside())
	if result.Gateway == nil || len(result.Problems) > 0 {
		t.Fatal(result.Problems)
	}
	if diff := cmp.Diff([]*model.Store{
		{Name: "one", Redis: model.RedisStore{Address: "redis.test:6379", Username: "u", Password: "p", Database: 2, TLS: &model.ClientTLS{}, PoolSize: 7}},
		{Name: "socket", Redis: model.RedisStore{Address: "unix:/etc/sluice/redis.sock"}},
		{Name: "watched", Redis: model.RedisStore{
			Sentinel: &model.RedisSentinel{Master: "m", Addresses: []string{"a.test:26379", "b.test:26379"}, Username: "su", Password: "sp"},
			Password: "p", Database: 3,
		}},
		{Name: "many", Redis: model.RedisStore{Cluster: []string{"[::1]:7001", "a.test:7000"}, TLS: &model.ClientTLS{ServerName: "redis.test"}}},
	}, result.Gateway.Stores); diff != "" {
		t.Error(diff)
	}
}

// TestStoresNamedAsNone are refused: whoever names them would not get them.
func TestStoresNamedAsNone(t *testing.T) {
	for _, name := range []string{"memory", "cookie"} {
		result := config.Resolve([]config.Document{{Name: "sluice.yaml", Data: []byte(`
listeners: {web: {address: ":8080"}}
stores: {` + name + `: {redis: {address: "redis.test:6379"}}}
routes: [{match: {path: /}, respond: {status: 204}}]
`)}}, nil, config.Environment{})
		want := "a store cannot be named " + name + ": store: " + name + " means none"
		if result.Gateway != nil || len(result.Problems) != 1 || result.Problems[0].Message != want || result.Problems[0].Line != 3 {
			t.Errorf("%s: %v", name, result.Problems)
		}
	}
}
