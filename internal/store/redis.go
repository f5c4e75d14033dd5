package store

import (
	"cmp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"sluice/internal/model"
)

// The bounds of waiting for a database, for whoever sets none by a context.
const (
	dialTimeout  = 2 * time.Second
	replyTimeout = 2 * time.Second
	// sentinelTimeout is how long a server or a sentinel may take where sentinels tell
	// the master. Finding it is a part of dialing: first the sentinel that told last is
	// asked, then it once more, then all; each of these may take so long.
	sentinelTimeout = time.Second
	findTimeout     = 4*sentinelTimeout + dialTimeout
	// poolTimeout is how long to wait for a connection where all are in use: less than
	// anybody waits for a database, so that this can be told from one that does not answer.
	poolTimeout = 25 * time.Millisecond
	// At rest are a part of all connections, the others are closed; so is one that rests
	// for too long, once it would be used.
	restShare   = 4
	restTimeout = 5 * time.Minute
	// mostDials is how many connections are made at once: more would keep a server that serves
	// by one thread from those who have one, as TLS takes a millisecond of it.
	mostDials = 8
)

// newRedis makes a client that begins nothing before it is used. Dialing is tried once
// for each use: whoever waits decides how often.
func newRedis(m *model.RedisStore, ages *ages) redis.UniversalClient {
	dial := dialer(m.TLS, ages)
	size := cmp.Or(m.PoolSize, model.DefaultPoolSize)
	rest := max(size/restShare, 1)
	switch {
	case m.Cluster != nil:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: m.Cluster, Username: m.Username, Password: m.Password, Dialer: dial,
			DialTimeout: dialTimeout, DialerRetries: 1, ReadTimeout: replyTimeout, WriteTimeout: replyTimeout, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: disabled(), DisableIdentity: true, PoolSize: size, MaxIdleConns: rest, ConnMaxIdleTime: restTimeout, PoolTimeout: poolTimeout, MaxConcurrentDials: mostDials,
			// Where a command goes is told by its key. By these it would ask a server for
			// the table of all commands first.
			DisableRoutingPolicies: true,
		})
	case m.Sentinel != nil:
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: m.Sentinel.Master, SentinelAddrs: m.Sentinel.Addresses, SentinelUsername: m.Sentinel.Username, SentinelPassword: m.Sentinel.Password,
			Username: m.Username, Password: m.Password, DB: m.Database, Dialer: dial,
			DisableIdentity: true, PoolSize: size, MaxIdleConns: rest, ConnMaxIdleTime: restTimeout, PoolTimeout: poolTimeout, MaxConcurrentDials: mostDials,
			DialTimeout: findTimeout, DialerRetries: 1, ReadTimeout: sentinelTimeout, WriteTimeout: sentinelTimeout, ContextTimeoutEnabled: true,
			// Repetitions at a sentinel that does not answer would take the time in which
			// the others are asked.
			MaxRetries: -1,
		})
	}
	options := &redis.Options{
		Network: "tcp", Addr: m.Address, Username: m.Username, Password: m.Password, DB: m.Database, Dialer: dial,
		DialTimeout: dialTimeout, DialerRetries: 1, ReadTimeout: replyTimeout, WriteTimeout: replyTimeout, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: disabled(), DisableIdentity: true, PoolSize: size, MaxIdleConns: rest, ConnMaxIdleTime: restTimeout, PoolTimeout: poolTimeout, MaxConcurrentDials: mostDials,
	}
	if path, ok := strings.CutPrefix(m.Address, "unix:"); ok {
		options.Network, options.Addr = "unix", path
	}
	return redis.NewClient(options)
}

// disabled are notifications of maintenance, which would begin goroutines with a
// client that nobody has used yet.
func disabled() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
