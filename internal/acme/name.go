package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	rfc8555 "github.com/mholt/acmez/v3/acme"
)

// pace is how often and how long things are tried.
type pace struct {
	check     time.Duration // the longest between looks at whether a certificate is due
	order     time.Duration // the longest that one order may take, its lock included
	orders    int           // at once
	firstLoad time.Duration // how long Start waits for the storage
	lock      time.Duration // how long a lock outlives an instance that dies
	complain  time.Duration // between two log lines about refused handshakes of a name
	// Tries after a failure: the directory or the storage could not be reached,
	// or the directory refused. The second kind counts against the limits of
	// public directories (Let's Encrypt: five failed validations an hour).
	unreached, refused backoff
}

// backoff doubles from first to most.
type backoff struct{ first, most time.Duration }

func usualPace() pace {
	return pace{
		check: 10 * time.Minute, order: 5 * time.Minute, orders: 4, firstLoad: 3 * time.Second,
		lock: 15 * time.Second, complain: time.Minute,
		unreached: backoff{5 * time.Second, 5 * time.Minute},
		refused:   backoff{time.Minute, 6 * time.Hour},
	}
}

func (b backoff) after(failures int) time.Duration {
	wait := b.first
	for ; failures > 1 && wait < b.most; failures-- {
		wait *= 2
	}
	return min(wait, b.most)
}

// name is one name with its certificate, and the goroutine that looks after it.
type name struct {
	manager *Manager
	domain  string
	log     *slog.Logger
	looked  chan struct{} // closed when the storage has answered once, or failed to
	shown   atomic.Pointer[certificate]

	complained atomic.Int64 // when a refused handshake was last told, in Unix nanoseconds

	mu       sync.Mutex
	failures int
	lastErr  error
	nextTry  time.Time
}

// certificate is one as the storage had it.
type certificate struct {
	certmagic.Certificate
	renewal rfc8555.RenewalInfo // as the directory advised (RFC 9773); empty: it does not
}

func newName(m *Manager, domain string) *name {
	return &name{manager: m, domain: domain, log: m.options.Log.With("domain", domain), looked: make(chan struct{})}
}

// run looks after the certificate until ctx ends.
func (n *name) run(ctx context.Context) {
	for {
		err := n.turn(ctx)
		if ctx.Err() != nil {
			return
		}
		n.rest(ctx, n.settle(ctx, err))
	}
}

// rest waits until the next turn. Where that is far off because orders fail it
// looks into the storage meanwhile: another instance may have had more luck.
func (n *name) rest(ctx context.Context, wait time.Duration) {
	for wait > 0 {
		slice := min(wait, n.manager.pace.check)
		timer := time.NewTimer(slice)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if wait -= slice; wait > 0 && n.load(ctx) == nil && !n.shown.Load().NeedsRenewal(n.manager.config) {
			return
		}
	}
}

// turn does what is to be done now: load, obtain, or renew.
func (n *name) turn(ctx context.Context) error {
	if n.shown.Load() == nil {
		err := n.load(ctx)
		select {
		case <-n.looked:
		default:
			close(n.looked)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return n.order(ctx, nil, func(ctx context.Context) error {
				return n.manager.config.ObtainCertSync(ctx, n.domain)
			})
		}
		if err != nil && n.torn(ctx) {
			n.log.Warn("acme: the stored certificate and its key do not fit; ordering another one")
			return n.renew(ctx, nil, true)
		}
		if err != nil {
			return fmt.Errorf("load the certificate: %w", err)
		}
	}
	n.takeAdvice(ctx)
	if shown := n.shown.Load(); shown.NeedsRenewal(n.manager.config) {
		return n.renew(ctx, shown.Leaf, false)
	}
	return nil
}

// renew orders a new certificate, unless another instance has done so meanwhile
// and it is not forced.
func (n *name) renew(ctx context.Context, old *x509.Certificate, force bool) error {
	return n.order(ctx, old, func(ctx context.Context) error {
		return n.manager.config.RenewCertSync(ctx, n.domain, force)
	})
}

// order runs an order that puts a certificate into the storage, and shows what
// is there then.
func (n *name) order(ctx context.Context, old *x509.Certificate, run func(context.Context) error) error {
	m := n.manager
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, m.pace.order)
	defer cancel()
	n.mu.Lock()
	again := n.failures > 0
	n.mu.Unlock()
	if old != nil && !again { // a directory may refuse an order for its claim to replace another
		ctx = context.WithValue(ctx, replacesKey{}, old)
	}
	if err := run(ctx); err != nil {
		return err
	}
	if err := n.load(ctx); err != nil {
		return fmt.Errorf("load the certificate that was obtained: %w", err)
	}
	return nil
}

// load shows the certificate that the storage has.
func (n *name) load(ctx context.Context) error {
	m := n.manager
	loaded, err := m.config.CacheManagedCertificate(ctx, n.domain)
	if err != nil {
		return err
	}
	// The copy is all that is needed; with an empty cache certmagic's own
	// maintenance has nothing to renew beside us.
	m.cache.Remove([]string{loaded.Hash()})
	next := &certificate{Certificate: loaded}
	if advice, _, err := n.storedAdvice(ctx); err == nil {
		next.renewal = advice
	}
	before := n.shown.Swap(next)
	if before == nil || before.Hash() != next.Hash() {
		n.log.Info("acme: showing a certificate", "serial", next.Leaf.SerialNumber.Text(16), "not_after", next.Leaf.NotAfter)
	}
	return nil
}

// torn tells whether certificate and key are both there but no pair, as after
// a crash between writing the one and the other. Nothing mends that but a new
// order.
func (n *name) torn(ctx context.Context) bool {
	issuer := n.manager.issuer.IssuerKey()
	chain, err := n.manager.storage.Load(ctx, certmagic.StorageKeys.SiteCert(issuer, n.domain))
	if err != nil {
		return false
	}
	key, err := n.manager.storage.Load(ctx, certmagic.StorageKeys.SitePrivateKey(issuer, n.domain))
	if err != nil {
		return false
	}
	_, err = tls.X509KeyPair(chain, key)
	return err != nil
}

// settle notes how a turn went and returns the time until the next one.
func (n *name) settle(ctx context.Context, err error) time.Duration {
	shown := n.shown.Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastErr = err
	if err == nil {
		n.failures = 0
		n.nextTry = shown.due()
		return min(n.manager.pace.check, shown.next(time.Now()))
	}
	n.failures++
	wait := n.manager.pace.unreached.after(n.failures)
	var problem rfc8555.Problem
	if errors.As(err, &problem) && problem.Status < 500 {
		wait = n.manager.pace.refused.after(n.failures)
	}
	n.nextTry = time.Now().Add(wait)

	attrs := []any{"error", err, "next_try", wait}
	switch {
	case shown == nil:
		n.log.ErrorContext(ctx, "acme: no certificate", attrs...)
	case shown.Expired():
		n.log.ErrorContext(ctx, "acme: the certificate was not renewed and has expired", append(attrs, "not_after", shown.Leaf.NotAfter)...)
	default:
		n.log.WarnContext(ctx, "acme: the certificate was not renewed", append(attrs, "not_after", shown.Leaf.NotAfter)...)
	}
	return wait
}

// due is when a certificate is renewed: as the directory advised, else in the
// last part of its life.
func (c *certificate) due() time.Time {
	if !c.renewal.SelectedTime.IsZero() {
		return c.renewal.SelectedTime
	}
	return c.Leaf.NotAfter.Add(-time.Duration(float64(c.Lifetime()) * certmagic.DefaultRenewalWindowRatio))
}

// next is how long a certificate may be left alone: until it is due, and for a third
// of the life that it has left, so that of short-lived ones a few tries fit in. One
// that is due as soon as it comes, as where the clock is wrong, must not make orders
// follow each other.
func (c *certificate) next(now time.Time) time.Duration {
	const share, least = 20, time.Second
	wait := min(c.due().Sub(now), c.Leaf.NotAfter.Sub(now)/3)
	return max(wait, c.Lifetime()/share, least)
}

// certificate is what a handshake gets.
func (n *name) certificate() (*tls.Certificate, error) {
	if shown := n.shown.Load(); shown != nil {
		return &shown.Certificate.Certificate, nil
	}
	n.mu.Lock()
	err, nextTry := n.lastErr, n.nextTry
	n.mu.Unlock()
	now, last := time.Now(), n.complained.Load()
	if now.UnixNano()-last >= int64(n.manager.pace.complain) && n.complained.CompareAndSwap(last, now.UnixNano()) {
		var attrs []any
		if err != nil { // else the first order is under way
			attrs = []any{"error", err, "next_try", nextTry}
		}
		n.log.Warn("acme: handshakes are refused: there is no certificate yet", attrs...)
	}
	return nil, fmt.Errorf("acme: %s: %w", n.domain, errNotYet)
}

var errNotYet = errors.New("no certificate yet")

func (n *name) status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	status := Status{Domain: n.domain, NextTry: n.nextTry}
	if shown := n.shown.Load(); shown != nil {
		status.NotAfter, status.Expired = shown.Leaf.NotAfter, shown.Expired()
	}
	if n.lastErr != nil {
		status.LastError = n.lastErr.Error()
	}
	return status
}
