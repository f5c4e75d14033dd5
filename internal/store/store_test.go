package store_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/redistest"
	"sluice/internal/store"
)

func TestMain(m *testing.M) {
	// A pool whose server was gone for long looks for it once a second: so long after it is
	// closed this goroutine ends.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

func named(m model.RedisStore) *model.Store { return &model.Store{Name: "main", Redis: m} }

// TestStore logs in, uses the database that is meant, and outlives a reload.
func TestStore(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "secret")
	m := named(model.RedisStore{Address: server.Address, Password: "secret", Database: 3})
	var registry lease.Registry
	before := registry.NewSet()
	s := store.Acquire(before, m)
	ctx := context.Background()
	if err := before.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.Redis.Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	after := registry.NewSet()
	same, other := *m, *m
	same.Name, other.Redis.Database = "renamed", 0
	if again := store.Acquire(after, &same); again != s {
		t.Error("equal settings are another store")
	}
	elsewhere := store.Acquire(after, &other)
	if n, err := elsewhere.Redis.Exists(ctx, "key").Result(); n != 0 || err != nil {
		t.Errorf("the key is in another database: %d, %v", n, err)
	}
	if err := after.Commit(); err != nil {
		t.Fatal(err)
	}
	before.Release()
	if value, err := s.Redis.Get(ctx, "key").Result(); value != "value" || err != nil {
		t.Errorf("after a reload: %q, %v", value, err)
	}
	done := make(chan struct{})
	s.Keep(done)
	after.Release()
	if err := s.Redis.Ping(ctx).Err(); err != nil {
		t.Errorf("it is closed under who needs it: %v", err)
	}
	close(done)
	redistest.Until(t, "the client is closed", func() bool {
		err := s.Redis.Ping(ctx).Err()
		return err != nil && strings.Contains(err.Error(), "closed")
	})
}

// TestStoreThatIsNotThere says so to who uses it, and to nobody before.
func TestStoreThatIsNotThere(t *testing.T) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	s := store.Acquire(set, named(model.RedisStore{Address: "unix:" + filepath.Join(t.TempDir(), "none")}))
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.Redis.Ping(t.Context()).Err(); err == nil {
		t.Error("somebody answers")
	}
}

// TestStoreOverTLS verifies the database's certificate by files that may change.
func TestStoreOverTLS(t *testing.T) {
	files := t.TempDir()
	pair(t, files, "good")
	pair(t, files, "other")
	at := func(name string) string { return filepath.Join(files, name) }
	address := redistest.FreeAddress(t)
	redistest.Start(t, secure(files, address)...)
	ca := at("ca.pem")
	replace := func(with string) {
		t.Helper()
		text, err := os.ReadFile(at(with))
		if err == nil {
			err = os.WriteFile(ca, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	replace("other.pem")
	settings := &model.ClientTLS{CA: ca, Cert: at("good.pem"), Key: at("good.key"), ServerName: "good"}
	set := new(lease.Registry).NewSet()
	defer set.Release()
	s := store.Acquire(set, named(model.RedisStore{Address: address, TLS: settings}))
	redistest.Until(t, "the certificate is refused", func() bool {
		err := s.Redis.Ping(t.Context()).Err()
		return err != nil && strings.Contains(err.Error(), "certificate")
	})
	replace("good.pem")
	redistest.Until(t, "it is believed", func() bool { return s.Redis.Ping(t.Context()).Err() == nil })
}

// secure are the options of a server that speaks TLS at an address, by the pair good.
func secure(files, address string) []string {
	at := func(name string) string { return filepath.Join(files, name) }
	_, port, _ := strings.Cut(address, ":")
	return []string{"--tls-port", port, "--tls-cert-file", at("good.pem"), "--tls-key-file", at("good.key"), "--tls-ca-cert-file", at("good.pem")}
}

// pair makes a certificate of a name, which vouches for itself, and its key.
func pair(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: cert}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
