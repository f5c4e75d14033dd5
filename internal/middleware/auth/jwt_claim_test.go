package auth

import (
	"slices"
	"testing"

	"sluice/internal/pipeline"
)

// TestClaimsInForwardedFields: a claim may be told as other proxies do, but not where the
// gateway tells something itself; what a proxy that is believed says there is dropped, too.
func TestClaimsInForwardedFields(t *testing.T) {
	b := newBed(t, JWT(), secretly("claims_to_headers: {X-Forwarded-User: sub, X-Forwarded-Email: email}"))
	r := request("/", bearing(hs(claimsOf(nil))), "X-Forwarded-User: forged", "X_Forwarded-User: forged", "X-Forwarded-Email: forged", "X-Forwarded-For: 192.0.2.7")
	if _, err := b.serve(r); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Fields[1:] {
		got = append(got, f.Name+": "+f.Value)
	}
	if want := []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-User: u1"}; !slices.Equal(got, want) {
		t.Errorf("the destination gets %q, want %q", got, want)
	}
	for _, name := range []string{"Forwarded", "X-Real-IP", "X-Request-ID", "Via", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Client-Cert"} {
		if _, problems := b.resolve(secretly("claims_to_headers: {" + name + ": sub}")); len(problems) != 1 || !pipeline.GatewaySets(name) {
			t.Errorf("%s: %q", name, problems)
		}
	}
}
