package ratelimit_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/certtest"
	"sluice/internal/model"
	"sluice/internal/ratelimit"
	"sluice/internal/redistest"
)

// coldStart is a Redis that is far away, by a way on which no connection was made yet.
type coldStart struct {
	name  string
	start func(t *testing.T, away time.Duration) model.RedisStore
}

func coldStarts() []coldStart {
	return []coldStart{
		{"plain", func(t *testing.T, away time.Duration) model.RedisStore {
			t.Helper()
			return model.RedisStore{Address: far(t, redistest.Start(t).Address, away)}
		}},
		{"with a password and a database", func(t *testing.T, away time.Duration) model.RedisStore {
			t.Helper()
			d := redistest.Start(t, "--requirepass", "secret")
			return model.RedisStore{Address: far(t, d.Address, away), Password: "secret", Database: 3}
		}},
		{"over TLS", func(t *testing.T, away time.Duration) model.RedisStore {
			t.Helper()
			address, settings := secured(t)
			return model.RedisStore{Address: far(t, address, away), TLS: settings, Password: "secret", Database: 3}
		}},
		{"sentinel", func(t *testing.T, away time.Duration) model.RedisStore {
			t.Helper()
			master := far(t, redistest.StartTCP(t).Address, away)
			watcher := redistest.StartSentinel(t, master)
			return model.RedisStore{Sentinel: &model.RedisSentinel{Master: redistest.MasterName, Addresses: []string{far(t, watcher.Address, away)}}}
		}},
		{"cluster", func(t *testing.T, away time.Duration) model.RedisStore {
			t.Helper()
			c := redistest.StartCluster(t, 2, 0)
			var addresses []string
			for _, s := range c.Masters {
				address := far(t, s.Address, away)
				addresses = append(addresses, address)
				_, port, _ := strings.Cut(address, ":")
				s.Must("CONFIG", "SET", "cluster-announce-port", port)
			}
			for _, s := range c.Masters {
				redistest.Until(t, "the servers tell of each other's far addresses", func() bool {
					told := fmt.Sprint(s.Must("CLUSTER", "SLOTS"))
					for _, a := range addresses {
						_, port, _ := strings.Cut(a, ":")
						if !strings.Contains(told, port) {
							return false
						}
					}
					return true
				})
			}
			return model.RedisStore{Cluster: addresses}
		}},
	}
}

// secured is a Redis over TLS, with a password.
func secured(t *testing.T) (address string, settings *model.ClientTLS) {
	t.Helper()
	cert, key := certtest.SelfSigned(t, "redis.test").Write(t.TempDir(), "redis")
	address = redistest.FreeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert,
		"--tls-auth-clients", "no", "--requirepass", "secret")
	return address, &model.ClientTLS{CA: cert, ServerName: "redis.test"}
}

// TestColdPool: where a burst of decisions finds no connection, none waits for one longer than
// a decision may. The connections come to be made all the same, and then the Redis decides,
// though making one takes longer than a decision may.
func TestColdPool(t *testing.T) {
	const burst, away = 16, 20 * time.Millisecond
	margin := time.Second // what a busy machine takes
	if *long {
		margin = 15 * time.Millisecond
	}
	for _, leased := range []bool{false, true} {
		for _, c := range coldStarts() {
			t.Run(fmt.Sprint(c.name, ", leased: ", leased), func(t *testing.T) {
				t.Parallel() // it waits most of the time
				log := new(logged)
				s := common(ratelimit.TokenBucket, quota(1_000_000, time.Second, 1_000_000))
				s.Lease = leased
				l := instance(t, c.start(t, away), s, log)
				longest, failed := burstOf(l, burst)
				redistest.Until(t, "the store decides", func() bool {
					took, n := burstOf(l, burst)
					longest = max(longest, took)
					return n == 0
				})
				outages := log.Count("cannot be used")
				t.Logf("of %d decisions at once %d failed at first; they took %v at most; %d outages", burst, failed, longest, outages)
				if most := 50*time.Millisecond + margin; longest > most {
					t.Errorf("a decision took %v, want %v at most", longest, most)
				}
				if *long && outages > 0 { // a machine that stands still for 50 ms sees some
					t.Errorf("it is taken for gone: %s", log.String())
				}
			})
		}
	}
}

// burstOf has so many decisions made at once, of as many keys. It returns how long one took
// at most, and how many the store did not make.
func burstOf(l *ratelimit.Limit, n int) (longest time.Duration, failed int64) {
	var took, without atomic.Int64
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			begun := time.Now()
			if l.Take(nobody{}, fmt.Sprint("k", i), "", 1).StoreFailed {
				without.Add(1)
			}
			for mine := int64(time.Since(begun)); ; {
				if before := took.Load(); before >= mine || took.CompareAndSwap(before, mine) {
					return
				}
			}
		})
	}
	group.Wait()
	return time.Duration(took.Load()), without.Load()
}
