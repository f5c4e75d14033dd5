package proxy_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/proxy"
	"sluice/internal/upstream"
)

// TestForwardedClientCert tells endpoints of a client's certificate where the
// listener is asked to, behind what a trusted proxy has said.
func TestForwardedClientCert(t *testing.T) {
	certificate := &message.ClientCertificate{Forwarded: "Hash=ab"}
	for name, test := range map[string]struct {
		secure      *model.ListenerTLS
		certificate *message.ClientCertificate
		said        string
		want        string
	}{
		"asked":                       {&model.ListenerTLS{ClientAuth: model.ClientAuth{Forward: true}}, certificate, "", "Hash=ab"},
		"behind a proxy":              {&model.ListenerTLS{ClientAuth: model.ClientAuth{Forward: true}}, certificate, "Hash=cd", "Hash=cd, Hash=ab"},
		"not asked":                   {&model.ListenerTLS{}, certificate, "", ""},
		"none shown":                  {&model.ListenerTLS{ClientAuth: model.ClientAuth{Forward: true}}, nil, "", ""},
		"a reload has taken TLS away": {nil, certificate, "", ""},
	} {
		request := get("/")
		if test.said != "" {
			request.Fields.Add("X-Forwarded-Client-Cert", test.said)
		}
		x := exchange(t.Context(), request)
		x.Listener = &model.Listener{TLS: test.secure}
		x.ClientCertificate = test.certificate
		got := ""
		for _, line := range lines(sent(t, x)) {
			if value, ok := strings.CutPrefix(line, "X-Forwarded-Client-Cert: "); ok {
				got = value
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// attempts is a transport that keeps whom attempts are for.
type attempts struct{ client, local netip.AddrPort }

func (a *attempts) RoundTrip(_ context.Context, try *pipeline.Attempt) error {
	a.client, a.local = try.Client, try.Local
	return pipeline.NewError(pipeline.UpstreamConnect, errors.New("nobody is there"))
}

// TestAttemptsAreTold of the client where their upstream wants a PROXY header.
func TestAttemptsAreTold(t *testing.T) {
	here := netip.MustParseAddrPort("198.51.100.1:443")
	for _, version := range []string{"", "v1"} {
		var a attempts
		var registry lease.Registry
		set := registry.NewSet()
		m := &model.Upstream{Name: "up", ProxyProtocol: version, Endpoints: []model.Endpoint{{URL: "http://a", Weight: 1}}}
		route := &model.Route{Upstream: m}
		group := upstream.Acquire(set, m, upstream.Connect{Transport: func(*lease.Set, *model.Upstream, model.Endpoint) pipeline.Transport { return &a }}, nil)
		x := exchange(t.Context(), get("/"))
		x.ClientIP = netip.MustParseAddr("203.0.113.9")
		x.Local = func() netip.AddrPort { return here }
		if err := proxy.New(route, []proxy.Side{{Group: group}}, proxy.Gateway{}).Serve(x); err == nil {
			t.Error("it was served")
		}
		want := attempts{}
		if version != "" {
			want = attempts{netip.AddrPortFrom(x.ClientIP, peerAddress.Port()), here}
		}
		if a != want {
			t.Errorf("%q: %+v, want %+v", version, a, want)
		}
		set.Release()
	}
}
