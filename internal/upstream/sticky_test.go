package upstream

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
)

// visit is an attempt of a client with a cookie, and the cookie that it gets.
func visit(t *testing.T, g *Group, cookie string, secure bool) (e *Endpoint, set string) {
	t.Helper()
	x := exchange(t)
	if cookie != "" {
		x = exchange(t, "Cookie: other=1; "+cookie)
	}
	if secure {
		x.Listener = &model.Listener{TLS: &model.ListenerTLS{}}
	}
	turn := begin(t, g, x, time.Now())
	defer turn.End()
	turn.Answered(200, time.Now())
	var response message.Response
	turn.Mark(x, &response)
	return turn.Endpoint, response.Fields.Get(message.SetCookie)
}

func TestStickyCookie(t *testing.T) {
	var registry lease.Registry
	text := "http://10.1.2.3:8080=1 http://10.1.2.4:8080=1 http://10.1.2.5:8080=1"
	before, set := acquire(t, &registry, of(text, policy(model.StickyCookie)))
	home, header := visit(t, before, "", false)
	cookie, attributes, _ := strings.Cut(header, ";")
	if attributes != " Path=/; HttpOnly; SameSite=Lax" || !strings.HasPrefix(cookie, "sluice=") || len(cookie) != len("sluice=")+16 {
		t.Errorf("Set-Cookie: %s", header)
	}
	if strings.Contains(header, "10.1") || strings.Contains(header, "8080") {
		t.Errorf("it tells an address: %s", header)
	}
	for range 20 {
		if e, header := visit(t, before, cookie, false); e != home || header != "" {
			t.Fatalf("then %s, Set-Cookie: %q", e.URL, header)
		}
	}
	// Over a reload that changes the order and the weights.
	after, next := acquire(t, &registry, of("http://10.1.2.9:8080=9 http://10.1.2.5:8080=1 http://10.1.2.4:8080=3 http://10.1.2.3:8080=1", policy(model.StickyCookie)))
	set.Release()
	for range 20 {
		if e, header := visit(t, after, cookie, false); e.URL != home.URL || header != "" {
			t.Fatalf("after a reload %s, Set-Cookie: %q", e.URL, header)
		}
	}
	// While it is drained the client goes elsewhere, where it stays.
	after.Drain(home.URL, true)
	other, header := visit(t, after, cookie, false)
	if other.URL == home.URL || !strings.HasPrefix(header, "sluice="+other.token+";") || other.token == home.token {
		t.Errorf("drained: %s, Set-Cookie: %q", other.URL, header)
	}
	after.Drain(home.URL, false)
	if e, _ := visit(t, after, "sluice="+other.token, false); e != other {
		t.Errorf("then %s", e.URL)
	}
	// Without its endpoint it means nothing.
	last, _ := acquire(t, &registry, of("http://10.1.2.9:8080=1", policy(model.StickyCookie)))
	next.Release()
	if e, header := visit(t, last, cookie, false); header == "" {
		t.Errorf("%s, and no cookie", e.URL)
	}
}

func TestStickyCookieOfATimeAndOverTLS(t *testing.T) {
	for ttl, want := range map[time.Duration]string{
		time.Hour:               "; Max-Age=3600; Secure",
		1500 * time.Millisecond: "; Max-Age=2; Secure",
		0:                       "; SameSite=Lax; Secure",
	} {
		m := of("a=1 b=1", policy(model.StickyCookie))
		m.Balancer.TTL, m.Balancer.Cookie = ttl, "at"
		g, _ := acquire(t, new(lease.Registry), m)
		if _, header := visit(t, g, "", true); !strings.HasSuffix(header, want) || !strings.HasPrefix(header, "at=") {
			t.Errorf("Set-Cookie: %s", header)
		}
	}
}

func TestOtherPoliciesSetNoCookie(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=1 b=1"))
	if _, header := visit(t, g, "", true); header != "" {
		t.Errorf("Set-Cookie: %s", header)
	}
}

// A token that a client has made up leads nowhere in particular.
func TestAForgedStickyCookie(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=1 b=1", policy(model.StickyCookie)))
	seen := map[string]bool{}
	for range 4 {
		e, header := visit(t, g, "sluice=a", false)
		if header == "" {
			t.Error("it is taken for good")
		}
		seen[e.URL] = true
	}
	if len(seen) != 2 {
		t.Errorf("it leads to %v", seen)
	}
	var turn Turn
	if err := g.Begin(&turn, exchange(t, "Cookie: sluice="), nil, time.Now()); err != nil {
		t.Error(err)
	}
	turn.End()
}
