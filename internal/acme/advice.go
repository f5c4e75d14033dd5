package acme

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/caddyserver/certmagic"
	rfc8555 "github.com/mholt/acmez/v3/acme"
)

// takeAdvice asks the directory anew when the certificate is to be renewed, if
// it advises at all and wants to be asked (RFC 9773). Its advice is kept with
// the certificate, where certmagic looks for it, and serves all instances. A
// directory that does not answer leaves the advice as it is.
func (n *name) takeAdvice(ctx context.Context) {
	shown := n.shown.Load()
	if !shown.renewal.NeedsRefresh() {
		return
	}
	if err := n.refreshAdvice(ctx, shown); err != nil && ctx.Err() == nil {
		n.log.Debug("acme: when to renew is not known anew", "error", err)
		later := *shown
		at := time.Now().Add(n.manager.pace.check)
		later.renewal.RetryAfter = &at
		n.shown.Store(&later)
	}
}

func (n *name) refreshAdvice(ctx context.Context, shown *certificate) error {
	m := n.manager
	ctx, cancel := context.WithTimeout(ctx, m.pace.order)
	defer cancel()
	lock := "ari_" + n.domain
	if err := m.storage.Lock(ctx, lock); err != nil {
		return err
	}
	defer func() {
		if err := m.storage.Unlock(context.WithoutCancel(ctx), lock); err != nil {
			n.log.Debug("acme: a lock was not given back", "error", err)
		}
	}()
	stored, resource, err := n.storedAdvice(ctx)
	if err != nil {
		return err
	}
	if stored.NeedsRefresh() && stored.UniqueIdentifier == shown.renewal.UniqueIdentifier {
		advice, err := m.issuer.GetRenewalInfo(ctx, shown.Certificate)
		if err != nil {
			return err
		}
		if advice.SameWindow(stored) { // the time was picked at random; it stays
			advice.SelectedTime = stored.SelectedTime
		}
		if err := n.storeAdvice(ctx, resource, advice); err != nil {
			return err
		}
	}
	return n.load(ctx)
}

// storedAdvice reads the advice that is kept with the certificate.
func (n *name) storedAdvice(ctx context.Context) (rfc8555.RenewalInfo, certmagic.CertificateResource, error) {
	var resource certmagic.CertificateResource
	text, err := n.manager.storage.Load(ctx, certmagic.StorageKeys.SiteMeta(n.manager.issuer.IssuerKey(), n.domain))
	if err != nil {
		return rfc8555.RenewalInfo{}, resource, err
	}
	var issued rfc8555.Certificate
	if err := json.Unmarshal(text, &resource); err != nil {
		return rfc8555.RenewalInfo{}, resource, fmt.Errorf("what is stored with the certificate: %w", err)
	}
	if err := json.Unmarshal(resource.IssuerData, &issued); err != nil {
		return rfc8555.RenewalInfo{}, resource, fmt.Errorf("what is stored with the certificate: %w", err)
	}
	if issued.RenewalInfo == nil {
		return rfc8555.RenewalInfo{}, resource, nil
	}
	return *issued.RenewalInfo, resource, nil
}

func (n *name) storeAdvice(ctx context.Context, resource certmagic.CertificateResource, advice rfc8555.RenewalInfo) error {
	var issued rfc8555.Certificate
	if err := json.Unmarshal(resource.IssuerData, &issued); err != nil {
		return err
	}
	issued.RenewalInfo = &advice
	var err error
	if resource.IssuerData, err = json.Marshal(issued); err != nil {
		return err
	}
	text, err := json.MarshalIndent(resource, "", "\t")
	if err != nil {
		return err
	}
	return n.manager.storage.Store(ctx, certmagic.StorageKeys.SiteMeta(n.manager.issuer.IssuerKey(), n.domain), text)
}
