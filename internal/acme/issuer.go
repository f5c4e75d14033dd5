package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	rfc8555 "github.com/mholt/acmez/v3/acme"
)

// issuer orders certificates of one directory. It is a certmagic.Issuer and a
// certmagic.RenewalInfoGetter.
type issuer struct {
	directory string
	email     string
	storage   certmagic.Storage
	solvers   map[string]acmez.Solver
	transport *http.Transport
	client    *http.Client
	log       *slog.Logger
}

// replacesKey is of the certificate that an order replaces, in its context: an
// *x509.Certificate.
type replacesKey struct{}

var errNoChain = errors.New("the directory issued no certificate")

func newIssuer(m *Manager, trust *tls.Config, log *slog.Logger) *issuer {
	i := &issuer{
		directory: m.settings.Directory, email: m.settings.Email, storage: m.storage, log: log,
		solvers: map[string]acmez.Solver{rfc8555.ChallengeTypeTLSALPN01: &m.pending},
		transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			TLSClientConfig:       trust,
			ForceAttemptHTTP2:     true,
			TLSHandshakeTimeout:   15 * time.Second,
			ResponseHeaderTimeout: 30 * time.Second,
			IdleConnTimeout:       15 * time.Second,
		},
	}
	if m.options.HTTP01 {
		i.solvers[rfc8555.ChallengeTypeHTTP01] = &m.pending
	}
	i.client = &http.Client{Transport: i.transport, Timeout: time.Minute}
	return i
}

// close gives back idle connections.
func (i *issuer) close() { i.transport.CloseIdleConnections() }

// IssuerKey is the directory as certmagic names it in the storage.
func (i *issuer) IssuerKey() string {
	return (&certmagic.ACMEIssuer{CA: i.directory}).IssuerKey()
}

func (i *issuer) newClient() *acmez.Client {
	return &acmez.Client{
		Client: &rfc8555.Client{
			Directory: i.directory, HTTPClient: i.client, UserAgent: "Sluice", Logger: i.log,
			PollTimeout: 90 * time.Second,
		},
		ChallengeSolvers: i.solvers,
	}
}

// Issue orders the certificate of a request. It is a method of
// certmagic.Issuer, which calls it under the lock of the name.
func (i *issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	client := i.newClient()
	account, err := i.account(ctx, client)
	if err != nil {
		return nil, err
	}
	chains, err := i.order(ctx, client, account, csr)
	var problem rfc8555.Problem
	if errors.As(err, &problem) && problem.Type == rfc8555.ProblemTypeAccountDoesNotExist {
		// The directory has forgotten us, as a private one does that was set up
		// anew.
		i.log.Info("the directory does not know the account; another one is registered")
		if err := i.forgetAccount(ctx); err != nil {
			return nil, err
		}
		if account, err = i.account(ctx, client); err != nil {
			return nil, err
		}
		chains, err = i.order(ctx, client, account, csr)
	}
	if err != nil {
		return nil, err
	}
	if len(chains) == 0 {
		return nil, errNoChain
	}
	return &certmagic.IssuedCertificate{Certificate: chains[0].ChainPEM, Metadata: chains[0]}, nil
}

func (i *issuer) order(ctx context.Context, client *acmez.Client, account rfc8555.Account, csr *x509.CertificateRequest) ([]rfc8555.Certificate, error) {
	parameters, err := acmez.OrderParametersFromCSR(account, csr)
	if err != nil {
		return nil, err
	}
	parameters.Replaces, _ = ctx.Value(replacesKey{}).(*x509.Certificate)
	chains, err := client.ObtainCertificate(ctx, parameters)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.directory, explained(err))
	}
	return chains, nil
}

// explained is an error of the client in plain words where its own are about
// itself: what was asked is no directory (RFC 8555 7.1.1).
func explained(err error) error {
	text := err.Error()
	if !strings.HasSuffix(text, " but target container is not io.Writer: *acme.Directory") {
		return err
	}
	_, kind, _ := strings.Cut(text, "response Content-Type is ")
	kind, _, _ = strings.Cut(kind, " but target")
	return fmt.Errorf("this is not the URL of an ACME directory: it answers with %q, not with application/json", kind)
}

// GetRenewalInfo asks when a certificate is to be renewed (RFC 9773). It is a
// method of certmagic.RenewalInfoGetter.
func (i *issuer) GetRenewalInfo(ctx context.Context, of certmagic.Certificate) (rfc8555.RenewalInfo, error) {
	return i.newClient().GetRenewalInfo(ctx, of.Leaf)
}
