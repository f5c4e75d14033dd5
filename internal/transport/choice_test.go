package transport

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/certtest"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

func protocolOf(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }

// What the endpoint picks is asked for once.
func TestEndpointsPick(t *testing.T) {
	each(t, func(t *bed) {
		for name, c := range map[string]struct {
			protocols []string
			want      string
			opened    int64
		}{
			"h2": {nil, "HTTP/2.0", 1}, "http/1.1": {[]string{alpnHTTP1}, "HTTP/1.1", 1},
		} {
			endpoint, trust := secured(t, http.HandlerFunc(protocolOf), c.protocols...)
			var n counts
			transport := reach(t, &model.Upstream{TLS: trust, Protocol: model.UpstreamAuto}, endpoint, n.observer())
			for range 5 {
				if _, body := ask(t, transport, get("/")); body != c.want {
					t.Errorf("%s: got %s, want %s", name, body, c.want)
				}
			}
			var all []<-chan error
			for range 5 {
				all = append(all, inBackground(t.Context(), transport, "/"))
			}
			for _, done := range all {
				answered(t, done)
			}
			if c.want == "HTTP/2.0" && n.opened.Load() != c.opened {
				t.Errorf("%s: %s", name, &n)
			}
		}
	})
}

// In clear there is nothing to pick from.
func TestAutoInClearIsHTTP1(t *testing.T) {
	each(t, func(t *bed) {
		transport := reach(t, &model.Upstream{Protocol: model.UpstreamAuto}, served(t, nil, http.HandlerFunc(protocolOf)), Observer{})
		if _, body := ask(t, transport, get("/")); body != "HTTP/1.1" {
			t.Errorf("got %s", body)
		}
	})
}

// An endpoint that is to speak HTTP/2 and does not is told of clearly.
func TestEndpointsMustSpeakHTTP2(t *testing.T) {
	each(t, func(t *bed) {
		old, trust := secured(t, http.HandlerFunc(protocolOf), alpnHTTP1)
		a := certtest.Authority(t, "authority")
		config := serverConfig(a)
		silent := insecure(scripted(t, func(p *peer) { _ = tls.Server(p.Conn, config).Handshake() })) // it knows no ALPN
		other := serverConfig(a)
		other.NextProtos = []string{"other"}
		strange := insecure(scripted(t, func(p *peer) { _ = tls.Server(p.Conn, other).Handshake() }))
		for _, c := range []struct {
			name     string
			endpoint model.Endpoint
			upstream model.Upstream
			want     string
		}{
			{"other protocols", old, model.Upstream{Protocol: model.UpstreamH2, TLS: trust}, "no application protocol"},
			{"no ALPN", silent, model.Upstream{Protocol: model.UpstreamH2, TLS: &model.ClientTLS{CA: a.CertFile()}}, "does not speak HTTP/2"},
			{"neither", strange, model.Upstream{Protocol: model.UpstreamAuto, TLS: &model.ClientTLS{CA: a.CertFile()}}, "no application protocol"},
			{"HTTP/1.1 in clear", scripted(t, func(p *peer) { p.head(); p.say("HTTP/1.1 400 Bad Request\r\n\r\n") }), model.Upstream{Protocol: model.UpstreamH2C}, "does not speak HTTP/2"},
			{"no word", scripted(t, func(p *peer) { p.head() }), model.Upstream{Protocol: model.UpstreamH2C}, "does not speak HTTP/2"},
		} {
			e := wantError(t, fails(t.Context(), t, reach(t, &c.upstream, c.endpoint, Observer{}), get("/")), pipeline.UpstreamConnect)
			if !strings.Contains(e.Error(), c.want) || !e.Unsent {
				t.Errorf("%s: %v, unsent %v", c.name, &e, e.Unsent)
			}
		}
	})
}

// An endpoint may change what it speaks.
func TestEndpointsChangeTheirMind(t *testing.T) {
	each(t, func(t *bed) {
		a := certtest.Authority(t, "authority")
		var config atomic.Pointer[tls.Config]
		speak := func(protocols ...string) {
			c := serverConfig(a)
			c.NextProtos = protocols
			config.Store(c)
		}
		speak(alpnH2, alpnHTTP1)
		outer := serverConfig(a)
		outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return config.Load(), nil }
		endpoint := served(t, outer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			protocolOf(w, r)
		}))
		transport := reach(t, &model.Upstream{TLS: &model.ClientTLS{CA: a.CertFile()}, Protocol: model.UpstreamAuto}, endpoint, Observer{})
		if _, body := ask(t, transport, get("/")); body != "HTTP/2.0" {
			t.Errorf("got %s", body)
		}
		speak(alpnHTTP1)
		waittest.Until(t, "HTTP/1.1 is spoken", func() bool {
			_, body := ask(t, transport, get("/"))
			return body == "HTTP/1.1"
		})
	})
}

// HTTP/2 has no upgrades: an attempt to an endpoint that speaks nothing else fails.
func TestUpgradesNeedHTTP1(t *testing.T) {
	both(t, http.HandlerFunc(protocolOf), func(t *bed, upstream *model.Upstream, endpoint model.Endpoint) {
		request := get("/")
		request.Fields.Add("Connection", "Upgrade")
		request.Fields.Add("Upgrade", "websocket")
		e := wantError(t, fails(t.Context(), t, reach(t, upstream, endpoint, Observer{}), request), pipeline.UpstreamProtocol)
		if e.Status != http.StatusBadGateway || !strings.Contains(e.Error(), "HTTP/1.1") || !strings.Contains(e.Detail, "HTTP/1.1") {
			t.Error(&e)
		}
	})
}
