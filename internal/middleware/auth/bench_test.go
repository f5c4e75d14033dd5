package auth

import (
	"net/netip"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// steps are what an exchange costs that is let through, after the first one.
func steps(t testing.TB) map[string]func() {
	t.Helper()
	var registry lease.Registry
	set := registry.NewSet()
	t.Cleanup(set.Release)
	nothing := func(path, text, _ string) { t.Error(path, text) }
	pass := pipeline.HandlerFunc(func(*pipeline.Exchange) error { return nil })
	step := func(m pipeline.Middleware, r *message.Request) func() {
		x := pipeline.NewExchange(t.Context(), r, &model.Listener{}, netip.AddrPort{}, time.Unix(1_618_884_473, 0))
		handler := m(pass)
		return func() {
			x.Principal = nil
			if err := handler.Serve(x); err != nil {
				t.Fatal(err)
			}
		}
	}
	site := &pipeline.Site{Leases: set}
	key := validateAPIKey(&APIKeyOptions{Forward: true, Keys: []APIKey{{Key: hashed("key-one"), Consumer: "shop"}}}, nothing)
	users := validateBasic(&BasicOptions{Realm: "r", Forward: true, Users: []UserOptions{{Name: "ann", Hash: bcrypted(t, "p")}}}, nothing)
	options, _ := HMAC().Options().(*HMACOptions)
	options.Keys = []HMACKey{{ID: "shop", Secret: hmacSecret}}
	return map[string]func(){
		"api_key":    step(key.middleware, request("/", "Accept: */*", "X-API-Key: key-one")),
		"basic_auth": step((&basicGate{users, acquirePasswords(set)}).middleware, request("/", "Accept: */*", basic("ann:p"))),
		"hmac_auth":  step(HMAC().Build(site, validateHMAC(options, nothing)), signing{}.sign(request("/a?b=c", "Accept: */*"))),
	}
}

// TestAllocations bounds what the usual case allocates; the race detector adds to it.
func TestAllocations(t *testing.T) {
	most := map[string]float64{"api_key": 2, "basic_auth": 15, "hmac_auth": 50}
	for name, step := range steps(t) {
		step()
		if got := testing.AllocsPerRun(100, step); got > most[name] {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func BenchmarkCredential(b *testing.B) {
	for name, step := range steps(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
	}
}
