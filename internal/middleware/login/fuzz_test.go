package login

import (
	"encoding/base64"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// FuzzSession holds cookies to this: nobody comes through but with a session that the
// gateway has made, whole and in its place, and none of its own cookies go on, while all
// others do.
func FuzzSession(f *testing.F) {
	gateway, problems := resolve(f, "", "{issuer: http://127.0.0.1:1, client_id: gateway, client_secret: 0123456789abcdef0123456789abcdef}")
	if problems != nil {
		f.Fatal(problems)
	}
	route := gateway.Routes[0]
	s, ok := route.Chain[0].Settings.(*settings)
	if !ok {
		f.Fatal("the settings are others")
	}
	// One time for all: who fuzzes comes back with what an earlier day has sealed.
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	g := newGate(&pipeline.Site{Leases: newRegistry().NewSet(), Gateway: gateway, Route: route, Step: &route.Chain[0], Log: slog.New(slog.DiscardHandler), ShowKeys: func(func() pipeline.KeysStatus) {}}, s, func() time.Time { return now })
	var came *pipeline.Exchange
	handler := g.middleware(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		came = x
		x.Response = &message.Response{Status: 200}
		return nil
	}))
	good := []string{""} // ID tokens: those who fuzz are several processes, and seal apart
	for _, size := range []int{1, 3000} {
		claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"ann","x":"` + strings.Repeat("a", size) + `"}`))
		text, err := g.keeper.save(f.Context(), &session{IDToken: "x." + claims + ".y", Began: now.Unix(), Due: now.Add(time.Hour).Unix(), Until: now.Add(2 * time.Hour).Unix()}, time.Hour)
		if err != nil {
			f.Fatal(err)
		}
		good = append(good, "x."+claims+".y")
		var pairs []string
		for _, value := range (&jar{name: s.Cookie}).sessionCookies(text, time.Hour) {
			pair, _, _ := strings.Cut(value, ";")
			pairs = append(pairs, pair)
		}
		f.Add(strings.Join(pairs, "; ")+"; a=b", "c=d")
		f.Add("a=b", strings.Join(pairs, ";"))
		slices.Reverse(pairs)
		f.Add(strings.Join(pairs, "; "), "")
		f.Add(strings.Join(pairs[1:], "; "), "")
	}
	f.Add("sluice_session=1.AAAA; sluice_session.1=x; sluice_session.login.0=a", "__Host-sluice_session=2.x; sluice_sessions=1; sluice_session.x=y")
	f.Fuzz(func(t *testing.T, one, two string) {
		r := &message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Host: "a", Path: "/"}
		r.Fields.Add("Cookie", one)
		r.Fields.Add("Cookie", two)
		jar := g.readJar(&pipeline.Exchange{Request: r})
		others := foreign(g, r.Fields)
		came = nil
		x := pipeline.NewExchange(t.Context(), r, &model.Listener{}, peer, now)
		err := pipeline.AsError(handler.Serve(x))
		token := ""
		if data, err := g.sealer.open(purposeSession, "", "", jar.text()); err == nil {
			if s, err := decodeSession(data); err == nil {
				token = s.IDToken
			}
		}
		if (came != nil) != (token != "") || !slices.Contains(good, token) {
			t.Fatalf("came through: %v, with the ID token %q", came != nil, token)
		}
		if came == nil {
			if err == nil || err.Word != pipeline.Unauthenticated {
				t.Fatal(err)
			}
			return
		}
		if left := foreign(g, x.Request.Fields); !slices.Equal(left, others) || x.Consumer != "ann" {
			t.Fatalf("%q of %q go on", left, others)
		}
		for pair := range cookies(x.Request.Fields) {
			if strings.HasPrefix(pair, s.Cookie+"=") || strings.HasPrefix(pair, s.Cookie+".login.") || strings.HasPrefix(pair, hostPrefix+s.Cookie+"=") {
				t.Fatalf("%q goes on", pair)
			}
		}
	})
}

// foreign are the cookies that are not oidc's own.
func foreign(g *gate, fields message.Fields) (others []string) {
	for pair := range cookies(fields) {
		name, _, _ := strings.Cut(pair, "=")
		bare := strings.TrimPrefix(name, hostPrefix)
		own := strings.HasPrefix(bare, g.Cookie+".login.") || bare == g.Cookie
		for n := 1; n < mostChunks; n++ {
			own = own || bare == g.Cookie+"."+string(rune('0'+n))
		}
		if pair != "" && !own {
			others = append(others, pair)
		}
	}
	return others
}
