// Package store holds clients of the databases that several instances share. A
// client is a lease by its settings, so that its connections outlive reloads.
// What is kept in a store is the business of whoever uses it.
package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"sluice/internal/certificate"
	"sluice/internal/lease"
	"sluice/internal/model"
)

// Store is a database that can be reached, or not for now: it connects when it is
// used. It is safe for concurrent use.
type Store struct {
	// Redis is the client. It is closed with the lease.
	Redis redis.UniversalClient

	mu    sync.Mutex
	users map[<-chan struct{}]struct{}
}

// The bounds of waiting for a database, for whoever sets none by a context.
const (
	dialTimeout  = 2 * time.Second
	replyTimeout = 2 * time.Second
)

// Acquire returns the store of these settings, the live one if there is one; set
// holds it.
func Acquire(set *lease.Set, m *model.Store) *Store {
	return lease.Acquire(set, "store\n"+model.Text(m.Redis), func() *Store {
		return &Store{Redis: newRedis(&m.Redis), users: map[<-chan struct{}]struct{}{}}
	})
}

// Keep keeps the client open until done is closed, also past the end of the
// lease: for what has to finish by it.
func (s *Store) Keep(done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[done] = struct{}{}
}

// Release closes the client once nobody needs it any more.
func (s *Store) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	go func(users map[<-chan struct{}]struct{}) {
		for done := range users {
			<-done
		}
		_ = s.Redis.Close() // nobody is left to tell
	}(s.users)
	s.users = nil
}

func newRedis(m *model.RedisStore) redis.UniversalClient {
	options := &redis.Options{
		Network: "tcp", Addr: m.Address, Username: m.Username, Password: m.Password, DB: m.Database,
		DialTimeout: dialTimeout, ReadTimeout: replyTimeout, WriteTimeout: replyTimeout, ContextTimeoutEnabled: true,
		// They would begin goroutines with a client that nobody has used yet.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if path, ok := strings.CutPrefix(m.Address, "unix:"); ok {
		options.Network, options.Addr = "unix", path
	}
	if m.TLS != nil {
		settings, name := m.TLS, m.TLS.ServerName
		if name == "" {
			name = hostOf(m.Address)
		}
		options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := clientConfig(settings, name)
			if err != nil {
				return nil, err
			}
			dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config}
			return dialer.DialContext(ctx, network, address)
		}
	}
	return redis.NewClient(options)
}

// hostOf is the name that a database's certificate bears; that of this machine on
// a Unix socket.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return "localhost"
}

// clientConfig is made for each connection, so that files which change are taken
// up.
func clientConfig(m *model.ClientTLS, name string) (*tls.Config, error) {
	material, err := certificate.ReadMaterial(m)
	if err != nil {
		return nil, fmt.Errorf("TLS of a store: %w", err)
	}
	config := &tls.Config{RootCAs: material.Roots, ServerName: name, InsecureSkipVerify: m.Insecure, MinVersion: tls.VersionTLS12} //nolint:gosec // G402: the user's word, which is warned of
	if material.Certificate != nil {
		config.Certificates = []tls.Certificate{*material.Certificate}
	}
	return config, nil
}
