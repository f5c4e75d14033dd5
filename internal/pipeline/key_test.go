package pipeline

import (
	"net/netip"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
)

func TestKeyOf(t *testing.T) {
	request := &message.Request{Query: "?user=a%20b&empty="}
	request.Fields.Add("X-User", "u1")
	request.Fields.Add("Cookie", "sid=s1; other=2")
	x := NewExchange(t.Context(), request, &model.Listener{}, netip.MustParseAddrPort("10.1.2.3:99"), time.Time{})
	x.Route, x.Consumer = &model.Route{ID: "r1", Upstream: &model.Upstream{Name: "up"}}, "c2"
	x.Principal = &Principal{Claims: map[string]any{"sub": "c1", "n": 7}}
	for _, c := range []struct {
		source model.KeySource
		name   string
		want   string
	}{
		{model.KeyHeader, "x-user", "u1"},
		{model.KeyHeader, "X-Other", ""},
		{model.KeyCookie, "sid", "s1"},
		{model.KeyCookie, "none", ""},
		{model.KeyQuery, "user", "a b"},
		{model.KeyQuery, "empty", ""},
		{model.KeyClaim, "sub", "c1"},
		{model.KeyClaim, "n", "7"},
		{model.KeyClaim, "none", ""},
		{model.KeyClientIP, "", "10.1.2.3"},
		{model.KeyGlobal, "", ""},
		{model.KeyRoute, "", "r1"},
		{model.KeyUpstream, "", "up"},
		{model.KeyConsumer, "", "c2"},
	} {
		value, there := KeyOf(x, &model.Key{Source: c.source, Name: c.name})
		if value != c.want || there != (c.want != "") {
			t.Errorf("%s:%s: %q, %v", c.source, c.name, value, there)
		}
	}
	for _, c := range []struct {
		route *model.Route
		want  string
	}{{&model.Route{ID: "r", Split: &model.Split{}}, "split of r"}, {&model.Route{ID: "r"}, ""}} {
		x.Route = c.route
		if value, _ := KeyOf(x, &model.Key{Source: model.KeyUpstream}); value != c.want {
			t.Errorf("upstream: %q, want %q", value, c.want)
		}
	}
	for _, c := range []struct {
		client string
		bits   int
		want   string
	}{
		{"2001:db8:1:2:3::4", 0, "2001:db8:1:2:3::4"},
		{"2001:db8:1:2:3::4", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2ff:3::4", 56, "2001:db8:1:200::/56"},
		{"2001:db8::", 1, "::/1"},
		{"fe80::1%eth0", 64, "fe80::/64"},
		{"192.0.2.1", 24, "192.0.2.1"},
		{"::ffff:192.0.2.1", 64, "192.0.2.1"},
	} {
		x := NewExchange(t.Context(), request, &model.Listener{}, netip.AddrPortFrom(netip.MustParseAddr(c.client), 1), time.Time{})
		if value, _ := KeyOf(x, &model.Key{Source: model.KeyClientIP, IPv6Prefix: c.bits}); value != c.want {
			t.Errorf("%d bits of %s: %q, want %q", c.bits, c.client, value, c.want)
		}
	}
	nobody := NewExchange(t.Context(), request, &model.Listener{}, netip.AddrPort{}, time.Time{})
	if value, there := KeyOf(nobody, &model.Key{Source: model.KeyClientIP, IPv6Prefix: 64}); there {
		t.Errorf("the network of nobody: %q", value)
	}
	x.Principal = nil
	if value, there := KeyOf(x, &model.Key{Source: model.KeyClaim, Name: "sub"}); there {
		t.Errorf("a claim of nobody: %q", value)
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown source passes")
		}
	}()
	KeyOf(x, &model.Key{Source: "moon"})
}
