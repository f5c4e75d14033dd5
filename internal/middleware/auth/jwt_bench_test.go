package auth

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// BenchmarkJWT is a request with a token of RS256: the first use, and those after it.
func BenchmarkJWT(b *testing.B) {
	k := tokenKeys()
	token := rs(k.rsa, "k1", claimsOf(fields{"roles": []string{"user"}, "exp": time.Now().Add(time.Hour).Unix()}))
	for _, use := range []struct{ name, options string }{{"first", "max_cached: 0"}, {"second", "max_cached: 10"}} {
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
			x := pipeline.NewExchange(b.Context(), request("/", bearing(token)), &model.Listener{}, netip.MustParseAddrPort("192.0.2.1:1"), time.Now())
			b.ReportAllocs()
			for b.Loop() {
				x.Principal = nil
				if err := handler.Serve(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
