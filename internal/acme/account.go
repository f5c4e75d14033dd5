package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	rfc8555 "github.com/mholt/acmez/v3/acme"
)

// account returns the account at the directory, from the storage or newly
// registered. All instances with one storage share it.
func (i *issuer) account(ctx context.Context, client *acmez.Client) (rfc8555.Account, error) {
	known, err := i.loadAccount(ctx)
	if !errors.Is(err, fs.ErrNotExist) {
		return known, err
	}
	_, lock := i.accountKeys()
	lock = "register_" + certmagic.StorageKeys.Safe(lock)
	if err := i.storage.Lock(ctx, lock); err != nil {
		return rfc8555.Account{}, fmt.Errorf("lock the registration of an account: %w", err)
	}
	defer func() {
		if err := i.storage.Unlock(context.WithoutCancel(ctx), lock); err != nil {
			i.log.Error("the lock of the account was not given back", "error", err)
		}
	}()
	if known, err = i.loadAccount(ctx); !errors.Is(err, fs.ErrNotExist) {
		return known, err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return rfc8555.Account{}, err
	}
	// Whoever configures a directory has agreed to its terms.
	fresh := rfc8555.Account{PrivateKey: key, TermsOfServiceAgreed: true}
	if i.email != "" {
		fresh.Contact = []string{"mailto:" + i.email}
	}
	if fresh, err = client.NewAccount(ctx, fresh); err != nil {
		return rfc8555.Account{}, fmt.Errorf("%s: register an account: %w", i.directory, explained(err))
	}
	if err := i.storeAccount(ctx, fresh); err != nil {
		return rfc8555.Account{}, fmt.Errorf("store the account: %w", err)
	}
	return fresh, nil
}

// accountKeys are where the account and its key lie in the storage: where
// certmagic has them.
func (i *issuer) accountKeys() (registration, key string) {
	contact := strings.ToLower(i.email)
	if contact == "" {
		contact = "default"
	}
	user, _, _ := strings.Cut(contact, "@")
	keys := certmagic.StorageKeys
	base := path.Join("acme", keys.Safe(i.IssuerKey()), "users", keys.Safe(contact), keys.Safe(user))
	return base + ".json", base + ".key"
}

func (i *issuer) loadAccount(ctx context.Context) (rfc8555.Account, error) {
	registrationKey, keyKey := i.accountKeys()
	text, err := i.storage.Load(ctx, registrationKey)
	if err != nil {
		return rfc8555.Account{}, fmt.Errorf("load the account: %w", err)
	}
	key, err := i.storage.Load(ctx, keyKey)
	if err != nil {
		return rfc8555.Account{}, fmt.Errorf("load the account's key: %w", err)
	}
	var known rfc8555.Account
	if err := json.Unmarshal(text, &known); err != nil {
		return rfc8555.Account{}, fmt.Errorf("%s: %w", registrationKey, err)
	}
	if known.PrivateKey, err = certmagic.PEMDecodePrivateKey(key); err != nil {
		return rfc8555.Account{}, fmt.Errorf("%s: %w", keyKey, err)
	}
	return known, nil
}

func (i *issuer) storeAccount(ctx context.Context, fresh rfc8555.Account) error {
	text, err := json.MarshalIndent(fresh, "", "\t")
	if err != nil {
		return err
	}
	key, err := certmagic.PEMEncodePrivateKey(fresh.PrivateKey)
	if err != nil {
		return err
	}
	// The key first: a registration without its key would never be made anew.
	registrationKey, keyKey := i.accountKeys()
	if err := i.storage.Store(ctx, keyKey, key); err != nil {
		return err
	}
	return i.storage.Store(ctx, registrationKey, text)
}

// forgetAccount removes the account from the storage.
func (i *issuer) forgetAccount(ctx context.Context) error {
	registrationKey, keyKey := i.accountKeys()
	if err := i.storage.Delete(ctx, registrationKey); err != nil {
		return err
	}
	return i.storage.Delete(ctx, keyKey)
}
