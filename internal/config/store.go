package config

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

type store struct {
	located
	Redis *redisStore `config:"redis" doc:"a Redis: by address, sentinel or cluster"`
}

type redisStore struct {
	located
	Address  string         `config:"address" doc:"one server: host:port or unix:PATH"`
	Sentinel *redisSentinel `config:"sentinel" doc:"the master that sentinels tell, whichever it is for now"`
	Cluster  *redisCluster  `config:"cluster" doc:"a cluster"`
	Username string         `config:"username" doc:"who to log in as"`
	Password Secret         `config:"password" doc:"what to log in with"`
	Database int            `config:"database" doc:"the number of the database; a cluster has but 0"`
	TLS      *clientTLS     `config:"tls" doc:"how to speak TLS to its servers and sentinels; {} is enough where the system trusts its authority" default:"none"`
	PoolSize *int           `config:"pool_size" doc:"how many connections to each server there are at most; they are opened as they are needed" default:"256"`
}

type redisSentinel struct {
	located
	Master    string   `config:"master,required" doc:"the name by which they know the master"`
	Addresses []string `config:"addresses,required" doc:"host:port of some of the sentinels; they tell of the others"`
	Username  string   `config:"username" doc:"who to log in as with the sentinels"`
	Password  Secret   `config:"password" doc:"what to log in with"`
}

type redisCluster struct {
	located
	Addresses []string `config:"addresses,required" doc:"host:port of some of its servers; they tell of the others"`
}

// mostPoolSize is as many clients as a Redis has by default.
const mostPoolSize = 10_000

// storesOf builds the stores that a document defines.
func (r *resolver) storesOf(d *document) {
	for i := range d.Stores {
		e := &d.Stores[i]
		if r.stores[e.Key] != e.key || e.Value.broken || e.Value.src == nil {
			continue
		}
		if e.Key == string(Memory) || e.Key == string(InCookie) {
			r.out.add(e.key, fmt.Sprintf("a store cannot be named %s: store: %s means none", e.Key, e.Key), "give it another name")
			continue
		}
		if e.Value.Redis == nil {
			r.out.add(e.Value.place, fmt.Sprintf("the store %s does not say what it is", e.Key), "write redis: {address: HOST:6379}")
			continue
		}
		r.gateway.Stores = append(r.gateway.Stores, &model.Store{Name: e.Key, Redis: r.redis(e.Value.Redis)})
	}
}

func (r *resolver) redis(in *redisStore) model.RedisStore {
	built := model.RedisStore{Username: in.Username, Password: string(in.Password), Database: in.Database, TLS: r.clientTLS(in.TLS)}
	var ways []string
	if in.Address != "" {
		ways, built.Address = append(ways, "address"), r.redisAddress(in)
	}
	if s := in.Sentinel; s != nil {
		ways = append(ways, "sentinel")
		built.Sentinel = &model.RedisSentinel{Master: s.Master, Addresses: r.redisAddresses(&s.located, s.Addresses), Username: s.Username, Password: string(s.Password)}
		if s.Master == "" {
			r.out.add(s.below("master"), "master is empty", "write the name that follows sentinel monitor in the sentinels' own configuration")
		}
	}
	if c := in.Cluster; c != nil {
		ways, built.Cluster = append(ways, "cluster"), r.redisAddresses(&c.located, c.Addresses)
	}
	switch len(ways) {
	case 0:
		r.out.add(in.place, "redis does not say where it is", "write address: HOST:6379, sentinel: {master: NAME, addresses: [HOST:26379]} or cluster: {addresses: [HOST:6379]}")
	case 1:
	default:
		r.out.add(in.below(ways[1]), fmt.Sprintf("redis has both %s and %s", ways[0], ways[1]), "leave one of them out")
	}
	switch {
	case in.Database < 0:
		r.out.add(in.below("database"), "database must not be negative", "")
	case in.Database > 0 && in.Cluster != nil:
		r.out.add(in.below("database"), fmt.Sprintf("a cluster has no database %d", in.Database), "leave database out")
	}
	if in.PoolSize != nil {
		built.PoolSize = *in.PoolSize
		if built.PoolSize < 1 || built.PoolSize > mostPoolSize {
			r.out.add(in.below("pool_size"), fmt.Sprintf("pool_size must be from 1 to %d, not %d", mostPoolSize, built.PoolSize), "")
		}
	}
	return built
}

func (r *resolver) redisAddress(in *redisStore) string {
	address, f := parseAddress(in.src.Dir, in.Address)
	switch {
	case f != nil:
		r.out.add(in.below("address"), "address "+f.message, f.hint)
	case strings.HasPrefix(address, ":") || strings.HasSuffix(address, ":0"):
		r.out.add(in.below("address"), fmt.Sprintf("address must be that of a Redis, with host and port, not %s", short(in.Address)), "write HOST:6379")
	}
	return address
}

// redisAddresses are those of servers that tell of others, so their order does not
// matter.
func (r *resolver) redisAddresses(l *located, list []string) (addresses []string) {
	if len(list) == 0 {
		r.out.add(l.below("addresses"), "addresses is empty", "write one at least: HOST:PORT")
	}
	for i, text := range list {
		key := fmt.Sprintf("addresses[%d]", i)
		address, f := parseAddress("", text)
		switch {
		case f != nil || strings.HasPrefix(address, unixPrefix) || strings.HasPrefix(address, ":") || strings.HasSuffix(address, ":0"):
			r.out.add(l.below(key), fmt.Sprintf("%s must be host:port, not %s", key, short(text)), "")
		case slices.Contains(addresses, address):
			r.out.add(l.below(key), fmt.Sprintf("%s is %s once more", key, address), "remove it")
		default:
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// storeNamed checks that a store is defined.
func (r *resolver) storeNamed(where place, name string) {
	if _, ok := r.stores[name]; ok || r.incomplete {
		return
	}
	hint := r.out.hint(name, r.storeNames)
	if hint == "" {
		hint = "define it under stores"
	}
	r.out.add(where, fmt.Sprintf("there is no store %s", short(name)), hint)
}
