package model

// Store is a database that instances share.
type Store struct {
	Name  string
	Redis RedisStore
}

// RedisStore is where a Redis is: one server, one that sentinels know, or a cluster.
// One of Address, Sentinel and Cluster is set.
type RedisStore struct {
	Address  string         // host:port or unix:PATH
	Sentinel *RedisSentinel // nil: none
	Cluster  []string       // host:port of some of its servers, sorted
	Username string
	Password string
	Database int        // 0 with Cluster
	TLS      *ClientTLS // of servers and sentinels; nil: none
	PoolSize int        // connections to each server, at most; 0: DefaultPoolSize
}

// DefaultPoolSize is how many connections to a Redis there are at most where nothing else
// is said. One serves a request at a time, so at 10 ms they do for 25,000 a second.
const DefaultPoolSize = 256

// RedisSentinel is who knows which server is the master.
type RedisSentinel struct {
	Master    string   // the name by which sentinels know it
	Addresses []string // host:port of some of them, sorted
	Username  string   // for sentinels themselves
	Password  string
}
