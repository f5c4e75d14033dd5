package auth

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// BenchmarkJWT is a request with a token of RS256: the first use, and those after it, also
// with fields of claims and with a key beside the token.
func BenchmarkJWT(b *testing.B) {
	k := tokenKeys()
	token := rs(k.rsa, "k1", claimsOf(fields{"roles": []string{"user"}, "exp": time.Now().Add(time.Hour).Unix()}))
	for _, use := range []struct{ name, options string }{{"first", "max_cached: 0"}, {"second", "max_cached: 10"}, {"second with fields and a key", "claims_to_headers: {X-User: sub, X-Roles: roles}"}} {
		b.Run(use.name, func(b *testing.B) {
			kind := JWT()
			result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
routes: [{match: {path: /}, respond: {status: 200}, middleware: [{jwt: {issuers: [{issuer: "https://issuer.test", public_key: ` + inYAML(publicPEM(&k.rsa.PublicKey)) + `}], ` + use.options + `}}]}]
`)}}, []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate}}, config.Environment{})
			if result.Gateway == nil {
				b.Fatal(result.Problems)
			}
			var registry lease.Registry
			set := registry.NewSet()
			defer set.Release()
			route := result.Gateway.Routes[0]
			site := &pipeline.Site{Leases: set, Gateway: result.Gateway, Route: route, Step: &route.Chain[0], Log: slog.New(slog.DiscardHandler), ShowKeys: func(func() pipeline.KeysStatus) {}}
			handler := pipeline.Chain(pipeline.HandlerFunc(func(*pipeline.Exchange) error { return nil }), kind.Build(site, route.Chain[0].Settings))
			nothing := func(path, text, _ string) { b.Error(path, text) }
			if strings.Contains(use.name, "key") {
				key := validateAPIKey(&APIKeyOptions{Forward: true, Keys: []APIKey{{Key: hashed(longKey), Consumer: "shop"}}}, nothing)
				handler = pipeline.Chain(pipeline.HandlerFunc(func(*pipeline.Exchange) error { return nil }), kind.Build(site, route.Chain[0].Settings), key.middleware)
			}
			came := request("/", bearing(token), "X-API-Key: "+longKey, "Accept: */*").Fields
			room := make(message.Fields, 16)
			x := pipeline.NewExchange(b.Context(), request("/"), &model.Listener{}, netip.MustParseAddrPort("192.0.2.1:1"), time.Now())
			b.ReportAllocs()
			for b.Loop() {
				n := copy(room, came)
				x.Principal, x.Request.Fields = nil, room[:n:n+1]
				x.GiveRoom(room[:n+1])
				if err := handler.Serve(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// longKey is as long as keys are.
const longKey = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
