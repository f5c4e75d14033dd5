package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	proxyproto "github.com/pires/go-proxyproto"

	"sluice/internal/certtest"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/sockettest"
)

func TestIntroduction(t *testing.T) {
	for _, c := range []struct{ version, client, local, want string }{
		{"", "192.0.2.1:1000", "192.0.2.2:80", ""},
		{"v1", "192.0.2.1:1000", "192.0.2.2:80", "PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n"},
		{"v1", "192.0.2.1:1000", "", "PROXY TCP4 192.0.2.1 0.0.0.0 1000 0\r\n"},
		{"v1", "192.0.2.1:1000", "[2001:db8::2]:80", "PROXY TCP4 192.0.2.1 0.0.0.0 1000 80\r\n"},
		{"v1", "[2001:db8::1]:1000", "[2001:db8::2]:80", "PROXY TCP6 2001:db8::1 2001:db8::2 1000 80\r\n"},
		{"v1", "[2001:db8::1]:1000", "192.0.2.2:80", "PROXY TCP6 2001:db8::1 ::ffff:192.0.2.2 1000 80\r\n"},
		{"v1", "[2001:db8::1]:1000", "", "PROXY TCP6 2001:db8::1 :: 1000 0\r\n"},
		{"v1", "[::ffff:192.0.2.1]:1000", "[::ffff:192.0.2.2]:80", "PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n"},
		{"v1", "", "", "PROXY UNKNOWN\r\n"},
		{"v2", "192.0.2.1:1000", "192.0.2.2:80", string(proxyproto.SIGV2) + "\x21\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x02\x03\xe8\x00\x50"},
		{"v2", "[2001:db8::1]:1000", "192.0.2.2:80", string(proxyproto.SIGV2) + "\x21\x21\x00\x24\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x02\x03\xe8\x00\x50"},
		{"v2", "", "", string(proxyproto.SIGV2) + "\x20\x00\x00\x00"},
	} {
		try := &pipeline.Attempt{}
		if c.client != "" {
			try.Client = netip.MustParseAddrPort(c.client)
		}
		if c.local != "" {
			try.Local = netip.MustParseAddrPort(c.local)
		}
		if got := introduction(c.version, try); got != c.want {
			t.Errorf("%s of %s at %s: %q, want %q", c.version, c.client, c.local, got, c.want)
		}
	}
}

// from makes attempts for a client.
type from struct {
	pipeline.Transport
	client string
}

func (f from) RoundTrip(ctx context.Context, a *pipeline.Attempt) error {
	if f.client != "" {
		a.Client, a.Local = netip.MustParseAddrPort(f.client), netip.MustParseAddrPort("192.0.2.9:80")
	}
	return f.Transport.RoundTrip(ctx, a)
}

// introduced is a listener that takes PROXY headers, and tells how many
// connections it took.
func introduced(t testing.TB, taken *atomic.Int64) func(s net.Listener) net.Listener {
	t.Helper()
	return func(l net.Listener) net.Listener {
		return &proxyproto.Listener{
			Listener: l,
			ConnPolicy: func(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
				taken.Add(1)
				return proxyproto.REQUIRE, nil
			},
		}
	}
}

// A connection serves the client that it began with, and no other.
func TestConnectionsBelongToClients(t *testing.T) {
	each(t, func(t *bed) {
		for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamH2C, model.UpstreamH2, model.UpstreamAuto} {
			for _, version := range []string{"v1", "v2"} {
				var taken atomic.Int64
				handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) })
				upstream := &model.Upstream{Protocol: protocol, ProxyProtocol: version}
				var endpoint model.Endpoint
				if protocol == model.UpstreamHTTP1 || protocol == model.UpstreamH2C {
					endpoint = servedOn(t, introduced(t, &taken), nil, handler)
				} else {
					a := certtest.Authority(t, "authority")
					endpoint = servedOn(t, introduced(t, &taken), serverConfig(a), handler)
					upstream.TLS = &model.ClientTLS{CA: a.CertFile()}
				}
				transport := reach(t, upstream, endpoint, Observer{})
				for range 3 {
					for _, client := range []string{"192.0.2.1:1000", "192.0.2.2:1000", "[2001:db8::1]:1000"} {
						if _, body := ask(t, from{transport, client}, get("/")); body != client {
							t.Errorf("%s, %s: the endpoint saw %s for %s", protocol, version, body, client)
						}
					}
				}
				if _, body := ask(t, from{transport, ""}, get("/")); strings.HasPrefix(body, "192.0.2") {
					t.Errorf("%s, %s: the endpoint saw %s for nobody", protocol, version, body)
				}
				if want := int64(4); t.engine != nil && taken.Load() != want && protocol != model.UpstreamAuto {
					t.Errorf("%s, %s: %d connections, want %d", protocol, version, taken.Load(), want)
				}
			}
		}
	})
}

// Where there is room for one connection, that of another client makes room.
func TestConnectionsOfOthersMakeRoom(t *testing.T) {
	engines(t, func(t *bed) {
		for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamH2C} {
			var taken atomic.Int64
			endpoint := servedOn(t, introduced(t, &taken), nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }))
			upstream := &model.Upstream{Protocol: protocol, ProxyProtocol: "v1", Pool: model.Pool{MaxConnections: 1, MaxPending: 10}}
			var c counts
			transport := reach(t, upstream, endpoint, c.observer())
			for range 5 {
				for _, client := range []string{"192.0.2.1:1000", "192.0.2.2:1000"} {
					for range 2 {
						if _, body := ask(t, from{transport, client}, get("/")); body != client {
							t.Errorf("%s: the endpoint saw %s for %s", protocol, body, client)
						}
					}
				}
			}
			if n := c.opened.Load(); n != 10 {
				t.Errorf("%s: %s", protocol, &c)
			}
			var all []<-chan error
			for i := range 8 {
				all = append(all, inBackground(t.Context(), from{transport, []string{"192.0.2.1:1000", "192.0.2.2:1000"}[i%2]}, "/"))
			}
			for _, done := range all {
				answered(t, done)
			}
		}
	})
}

// The header comes before all else also where HAProxy reads it.
func TestHAProxyTakesIntroductions(t *testing.T) {
	a := certtest.Authority(t, "authority")
	backend := scripted(t, func(p *peer) {
		for head := p.head(); head != ""; head = p.head() {
			seen := headerOfText(head, "x-seen")
			p.say("HTTP/1.1 200 OK\r\nContent-Length: " + itoa(len(seen)) + "\r\n\r\n" + seen)
		}
	})
	plain, secure, clear2 := sockettest.FreePort(t, "127.0.0.1"), sockettest.FreePort(t, "127.0.0.1"), sockettest.FreePort(t, "127.0.0.1")
	config := "defaults\n mode http\n timeout client 10s\n timeout server 10s\n timeout connect 10s\n" +
		"frontend f\n bind 127.0.0.1:" + plain + " accept-proxy\n bind 127.0.0.1:" + secure + " accept-proxy ssl crt " + bundle(t, a.Issue("127.0.0.1")) + " alpn h2,http/1.1\n" +
		" bind 127.0.0.1:" + clear2 + " accept-proxy proto h2\n" +
		" http-request set-header X-Seen %[src]:%[src_port]\n default_backend b\nbackend b\n server s " + backend.Address + "\n"
	run(t, "haproxy", "-f", write(t, t.TempDir()+"/haproxy.cfg", []byte(config)), "-db")
	for _, port := range []string{plain, secure, clear2} {
		listens(t, port)
	}
	each(t, func(t *bed) {
		for _, version := range []string{"v1", "v2"} {
			for _, c := range []struct{ protocol, scheme, port string }{
				{model.UpstreamHTTP1, "http", plain}, {model.UpstreamHTTP1, "https", secure}, {model.UpstreamH2, "https", secure}, {model.UpstreamAuto, "https", secure}, {model.UpstreamH2C, "http", clear2},
			} {
				endpoint := at(c.scheme, c.port)
				upstream := &model.Upstream{Protocol: c.protocol, ProxyProtocol: version, TLS: &model.ClientTLS{CA: a.CertFile()}}
				transport := from{reach(t, upstream, endpoint, Observer{}), "192.0.2.7:4711"}
				for range 3 {
					if _, body := ask(t, transport, get("/")); body != "192.0.2.7:4711" {
						t.Errorf("%s over %s, %s: HAProxy saw %q", c.protocol, c.scheme, version, body)
					}
				}
			}
		}
	})
}

// headerOfText is a field's value in the text of a head.
func headerOfText(head, name string) string {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
	if err != nil {
		return err.Error()
	}
	return r.Header.Get(name)
}
