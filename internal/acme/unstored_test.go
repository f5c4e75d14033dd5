package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	rfc8555 "github.com/mholt/acmez/v3/acme"
)

// errDisk is what a storage says that fails.
var errDisk = errors.New("the disk is broken")

// failing is a storage of which one operation fails, of keys that end so.
type failing struct {
	*diskStorage
	operation, ending string
}

func (f *failing) fails(operation, key string) error {
	if operation == f.operation && strings.HasSuffix(key, f.ending) {
		return errDisk
	}
	return nil
}

func (f *failing) Load(ctx context.Context, key string) ([]byte, error) {
	if err := f.fails("load", key); err != nil {
		return nil, err
	}
	return f.diskStorage.Load(ctx, key)
}

func (f *failing) Store(ctx context.Context, key string, value []byte) error {
	if err := f.fails("store", key); err != nil {
		return err
	}
	return f.diskStorage.Store(ctx, key, value)
}

func (f *failing) Delete(ctx context.Context, key string) error {
	if err := f.fails("delete", key); err != nil {
		return err
	}
	return f.diskStorage.Delete(ctx, key)
}

func (f *failing) Lock(ctx context.Context, name string) error {
	if err := f.fails("lock", name); err != nil {
		return err
	}
	return f.diskStorage.Lock(ctx, name)
}

// failingStorage is one of a new directory.
func failingStorage(t *testing.T, operation, ending string) *failing {
	t.Helper()
	disk, err := newDiskStorage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &failing{disk, operation, ending}
}

// issuerOn is an issuer that must not come to ask its directory.
func issuerOn(storage certmagic.Storage) *issuer {
	return &issuer{directory: "https://directory.test/dir", storage: storage, log: slog.New(slog.DiscardHandler)}
}

// An account that cannot be read is not registered anew: the directory has it.
func TestAccountsThatCannotBeRead(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := certmagic.PEMEncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		operation, ending  string
		registration, pair string // what is stored; empty: nothing
		want               string
	}{
		"no registration": {"load", ".json", "", "", "load the account: the disk is broken"},
		"no key":          {"load", ".key", "{}", string(text), "load the account's key: the disk is broken"},
		"no JSON":         {"", "", "{", string(text), ".json: unexpected end"},
		"no PEM":          {"", "", "{}", "x", ".key: "},
		"no lock":         {"lock", "", "", "", "lock the registration of an account: the disk is broken"},
	} {
		i := issuerOn(failingStorage(t, c.operation, c.ending))
		registrationKey, keyKey := i.accountKeys()
		for where, what := range map[string]string{registrationKey: c.registration, keyKey: c.pair} {
			if what == "" {
				continue
			}
			if err := i.storage.Store(t.Context(), where, []byte(what)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := i.account(t.Context(), &acmez.Client{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A registration is never kept without its key.
func TestAccountsThatCannotBeKept(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	fresh := rfc8555.Account{PrivateKey: key}
	for _, ending := range []string{".key", ".json"} {
		i := issuerOn(failingStorage(t, "store", ending))
		if err := i.storeAccount(t.Context(), fresh); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", ending, err)
		}
		if _, err := i.loadAccount(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: half an account is there: %v", ending, err)
		}
		i = issuerOn(failingStorage(t, "delete", ending))
		if err := i.storeAccount(t.Context(), fresh); err != nil {
			t.Fatal(err)
		}
		if err := i.forgetAccount(t.Context()); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", ending, err)
		}
	}
	i := issuerOn(failingStorage(t, "", ""))
	if err := i.storeAccount(t.Context(), rfc8555.Account{}); err == nil {
		t.Error("an account without a key is kept")
	}
}

// Advice that cannot be read or kept is an error, which changes no certificate.
func TestAdviceThatCannotBeKept(t *testing.T) {
	for name, c := range map[string]struct {
		operation string
		stored    string // beside the certificate
		want      string
	}{
		"no lock":               {"lock", "", "the disk is broken"},
		"nothing":               {"", "", "no such file"},
		"unreadable":            {"load", "{}", "the disk is broken"},
		"no JSON":               {"", "{", "what is stored with the certificate: unexpected end"},
		"nothing of the issuer": {"", `{"issuer_data": 7}`, "what is stored with the certificate: json"},
	} {
		storage := failingStorage(t, c.operation, "")
		m := &Manager{storage: storage, issuer: issuerOn(storage), pace: usualPace(), options: Options{Log: slog.New(slog.DiscardHandler)}}
		n := newName(m, "a.test")
		if c.stored != "" {
			if err := storage.Store(t.Context(), certmagic.StorageKeys.SiteMeta(m.issuer.IssuerKey(), n.domain), []byte(c.stored)); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.refreshAdvice(t.Context(), &certificate{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	storage := failingStorage(t, "store", "")
	n := newName(&Manager{storage: storage, issuer: issuerOn(storage), options: Options{Log: slog.New(slog.DiscardHandler)}}, "a.test")
	if err := n.storeAdvice(t.Context(), certmagic.CertificateResource{IssuerData: []byte("{}")}, rfc8555.RenewalInfo{}); !errors.Is(err, errDisk) {
		t.Errorf("what cannot be stored: %v", err)
	}
	if err := n.storeAdvice(t.Context(), certmagic.CertificateResource{IssuerData: []byte("7")}, rfc8555.RenewalInfo{}); err == nil {
		t.Error("advice is kept with something else")
	}
}
