package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/certtest"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// Why an endpoint is not reached is told once, however often it is tried.
func TestWhyEndpointsAreNotReached(t *testing.T) {
	trusted, other := certtest.Authority(t, "authority"), certtest.Authority(t, "authority")
	past := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}
	server := func(c tls.Certificate, offer ...string) model.Endpoint {
		return served(t, &tls.Config{Certificates: []tls.Certificate{c}, NextProtos: offer}, http.HandlerFunc(echo))
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := model.Endpoint{URL: "http://" + nobody.Addr().String(), Scheme: "http", Address: nobody.Addr().String(), Host: nobody.Addr().String()}
	_ = nobody.Close()
	ca := trusted.CertFile()
	for _, c := range []struct {
		name      string
		endpoint  model.Endpoint
		protocols []string
		want      string
	}{
		{"expired", server(trusted.IssueFor(certtest.NewKey(t), past, "127.0.0.1").TLS(), alpnH2), []string{model.UpstreamHTTP1, model.UpstreamH2, model.UpstreamAuto}, "expired"},
		{"other authority", server(other.Issue("127.0.0.1").TLS(), alpnH2), []string{model.UpstreamHTTP1, model.UpstreamH2, model.UpstreamAuto}, "unknown authority"},
		{"other name", server(trusted.Issue("shop.test").TLS(), alpnH2), []string{model.UpstreamHTTP1, model.UpstreamH2, model.UpstreamAuto}, "127.0.0.1"},
		{"no HTTP/2", server(trusted.Issue("127.0.0.1").TLS(), alpnHTTP1), []string{model.UpstreamH2}, "protocol"},
		{"nobody", closed, []string{model.UpstreamHTTP1, model.UpstreamH2C}, "connection refused"},
	} {
		each(t, func(t *bed) {
			for _, protocol := range c.protocols {
				var mu sync.Mutex
				var told []string
				observer := Observer{Unreached: func(upstream, endpoint string, cause error) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, fmt.Sprintf("%s %s %v", upstream, endpoint, cause))
				}}
				transport := reach(t, &model.Upstream{TLS: &model.ClientTLS{CA: ca}, Protocol: protocol, Timeouts: model.AttemptTimeouts{Connect: 10 * time.Second}}, c.endpoint, observer)
				for range 3 {
					wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamConnect)
				}
				mu.Lock()
				if len(told) != 1 || !strings.HasPrefix(told[0], "up "+c.endpoint.URL+" ") || !strings.Contains(told[0], c.want) {
					t.Errorf("%s, %s: told %q", c.name, protocol, told)
				}
				mu.Unlock()
			}
		})
	}
}

// A cause is told again after a minute; another one at once, but for many.
func TestComplaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c complaints
		refused := func(port int) error {
			return &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: syscall.ECONNRESET}
		}
		expired := func() error {
			return fmt.Errorf("TLS: %w", x509.CertificateInvalidError{Reason: x509.Expired, Detail: time.Now().String()})
		}
		due := func(want bool, cause error) {
			t.Helper()
			if got := c.due(cause, time.Now()); got != want {
				t.Errorf("%v is due: %v", cause, got)
			}
		}
		due(true, refused(1))
		due(false, refused(2))
		due(true, expired())
		time.Sleep(time.Second)
		due(false, expired())
		for i := range 10 {
			due(i < mostComplaints-2, errors.New(strings.Repeat("x", i)))
		}
		time.Sleep(complainEvery - 2*time.Second)
		due(false, expired())
		time.Sleep(time.Second)
		due(true, expired())
		due(true, refused(3))
	})
}
