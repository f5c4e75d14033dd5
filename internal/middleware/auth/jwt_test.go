package auth

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func TestJWTAlgorithms(t *testing.T) {
	k := tokenKeys()
	for alg, keys := range map[string]struct {
		private any
		options string
	}{
		"HS256": {jwtSecret, "secret: '" + jwtSecret + "', algorithms: [HS256]"},
		"RS256": {k.rsa, "algorithms: [RS256], public_key: " + inYAML(publicPEM(&k.rsa.PublicKey))},
		"ES256": {k.ec, "public_key: " + inYAML(publicPEM(&k.ec.PublicKey))},
		"EdDSA": {k.ed25519, "public_key: " + inYAML(publicPEM(k.ed25519.Public()))},
		"SM2":   {k.sm2, "algorithms: [SM2], public_key: " + inYAML(publicPEM(&k.sm2.PublicKey))},
	} {
		b := newBed(t, JWT(), issuer(keys.options))
		token := signed(keys.private, fields{"alg": alg}, claimsOf(nil))
		for range 2 {
			if p, err := b.serve(request("/", bearing(token))); err != nil || p.Name != "u1" {
				t.Errorf("%s: %+v, %v", alg, p, err)
			}
		}
	}
}

func TestPrincipalOfAToken(t *testing.T) {
	claims := claimsOf(fields{"azp": "shop", "plan": fields{"tier": "gold"}, "groups": []any{"a", "b"}, "roles": "admin", "nested": []any{"a", []any{"admin"}, fields{"admin": true}, 7}, "n": 12345678901234567})
	for options, want := range map[string]pipeline.Principal{
		"":                       {Name: "u1", Groups: []string{"a", "b"}},
		"consumer_claim: azp":    {Name: "shop", Groups: []string{"a", "b"}},
		"consumer_claim: nobody": {Name: "", Groups: []string{"a", "b"}},
		"tier_claim: plan.tier":  {Name: "u1", Tier: "gold", Groups: []string{"a", "b"}},
		"groups_claim: roles":    {Name: "u1", Groups: []string{"admin"}},
		"groups_claim: nested":   {Name: "u1", Groups: []string{"a", "7"}},
		"groups_claim: plan":     {Name: "u1"},
		"groups_claim: nothing":  {Name: "u1"},
		"groups_claim: ''":       {Name: "u1"},
		"consumer_claim: n":      {Name: "12345678901234567", Groups: []string{"a", "b"}},
		"max_cached: 0":          {Name: "u1", Groups: []string{"a", "b"}},
	} {
		b := newBed(t, JWT(), secretly(slices.DeleteFunc([]string{options}, func(s string) bool { return s == "" })...))
		for range 2 {
			p, err := b.serve(request("/", bearing(hs(claims))))
			if err != nil || p.Name != want.Name || p.Tier != want.Tier || !slices.Equal(p.Groups, want.Groups) || b.came.Consumer != want.Name {
				t.Errorf("%s: %+v, %v", options, p, err)
			}
			if value, _ := p.Claim("plan.tier"); value != "gold" {
				t.Errorf("%s: the claims are %v", options, p.Claims)
			}
		}
	}
}

func TestPlacesOfTokens(t *testing.T) {
	good := hs(claimsOf(nil))
	for _, test := range []struct {
		from, target string
		fields       []string
		challenge    string // empty: it passes
	}{
		{"", "/", []string{"Authorization: Bearer " + good}, ""},
		{"", "/", []string{"authorization: bearer " + good}, ""},
		{"", "/", []string{"Authorization: Bearer  " + good}, ""},
		{"", "/", nil, challengeAbsent},
		{"", "/", []string{"Authorization: " + good}, challengeAbsent},
		{"", "/", []string{"Authorization: Basic dTpw"}, challengeAbsent},
		{"", "/", []string{"Authorization: Bearer"}, challengeToken},
		{"", "/", []string{"Authorization: Bearer\t" + good}, challengeAbsent},
		{"", "/", []string{"Authorization: Bearer " + good, "Authorization: Bearer " + good}, challengeRequest},
		{"", "/", []string{"Authorization: Bearer " + good, "Authorization: Basic dTpw"}, challengeRequest},
		{"", "/?access_token=" + good, nil, challengeAbsent},
		{"", "/", []string{"Cookie: token=" + good}, challengeAbsent},
		{"from: {header: authorization}", "/", []string{"Authorization: Bearer " + good}, ""},
		{"from: {header: X-Token}", "/", []string{"X-Token: " + good}, ""},
		{"from: {header: X-Token}", "/", []string{"X-Token: Bearer " + good}, challengeToken},
		{"from: {header: X-Token}", "/", []string{"X-Token: " + good, "x-token: " + good}, challengeRequest},
		{"from: {header: X-Token, scheme: Bearer}", "/", []string{"X-Token: Bearer " + good}, ""},
		{"from: {header: X-Token, scheme: JWT}", "/", []string{"X-Token: Bearer " + good}, challengeAbsent},
		{"from: {cookie: token}", "/", []string{"Cookie: a=b; token=" + good}, ""},
		{"from: {cookie: token}", "/", []string{"Cookie: token=" + good + "; token=" + good}, challengeRequest},
		{"from: {cookie: token}", "/", []string{"Cookie: token=" + good, "Cookie: token=x"}, challengeRequest},
		{"from: {cookie: token}", "/", []string{"Cookie: TOKEN=" + good}, challengeAbsent},
		{"from: {query: access_token}", "/?a=b&access_token=" + good, nil, ""},
		{"from: {query: access_token}", "/?access%5Ftoken=" + good, nil, ""},
		{"from: {query: access_token}", "/?access_token=" + good + "&access_token=x", nil, challengeRequest},
		{"from: [{header: Authorization}, {cookie: token}, {query: t}]", "/", []string{"Cookie: token=" + good}, ""},
		{"from: [{header: Authorization}, {cookie: token}, {query: t}]", "/?t=" + good, nil, ""},
		{"from: [{header: Authorization}, {cookie: token}, {query: t}]", "/?t=" + good, []string{"Authorization: Bearer " + good}, challengeRequest},
		{"from: [{header: Authorization}, {cookie: token}, {query: t}]", "/", []string{"Authorization: Bearer " + good, "Cookie: token=x"}, challengeRequest},
		{"from: [{header: Authorization}, {cookie: token}, {query: t}]", "/", nil, challengeAbsent},
		{"optional: true", "/", nil, ""},
		{"optional: true", "/", []string{"Authorization: Basic dTpw"}, ""},
		{"optional: true", "/", []string{"Authorization: Bearer abc"}, challengeToken},
		{"optional: true", "/", []string{"Authorization: Bearer "}, challengeToken},
		{"optional: true", "/", []string{"Authorization: Bearer " + good, "Authorization: Bearer " + good}, challengeRequest},
	} {
		var more []string
		if test.from != "" {
			more = append(more, test.from)
		}
		b := newBed(t, JWT(), secretly(more...))
		r := request(test.target, test.fields...)
		before := slices.Clone(r.Fields)
		p, err := b.serve(r)
		what := test.from + " " + strings.ReplaceAll(strings.Join(append(test.fields, test.target), " "), good, "TOKEN")
		if test.challenge != "" {
			b.refused(what, err, test.challenge)
			continue
		}
		if err != nil || strings.HasPrefix(test.from, "optional") != (p == nil) {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
		if !slices.Equal(r.Fields, before) { // the destination gets it as it came
			t.Errorf("%s: the fields are %v", what, r.Fields)
		}
	}
}

func TestClaimsToHeaders(t *testing.T) {
	options := secretly("optional: true, claims_to_headers: {X-User-Id: sub, X-Roles: realm.roles, X-Verified: verified, X-Org: org}")
	b := newBed(t, JWT(), options)
	forged := []string{"X-User-Id: forged", "x-user-id: forged", "X_User_Id: forged", "x-user_ID: forged", "X-Org: forged", "X_ROLES: forged", "X-Other: kept", "X-User: kept", "X_Other: kept"}
	claims := claimsOf(fields{"realm": fields{"roles": []any{"a", "b"}}, "verified": true, "org": nil})
	for _, test := range []struct {
		more []string
		want map[string]string
	}{
		{[]string{bearing(hs(claims))}, map[string]string{"X-User-Id": "u1", "X-Roles": "a,b", "X-Verified": "true"}},
		{[]string{bearing(hs(claims))}, map[string]string{"X-User-Id": "u1", "X-Roles": "a,b", "X-Verified": "true"}},
		{nil, map[string]string{}},
	} {
		r := request("/", append(slices.Clone(forged), test.more...)...)
		behind := request("/", forged...).Fields
		r.Trailer = func() message.Fields { return behind }
		if _, err := b.serve(r); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, f := range append(r.Trailer(), r.Fields...) {
			switch {
			case f.Value == "forged":
				t.Errorf("%s goes on as the client sent it", f.Name)
			case f.Value != "kept" && f.ID != message.Authorization:
				if _, twice := got[f.Name]; twice {
					t.Errorf("%s is there twice", f.Name)
				}
				got[f.Name] = f.Value
			}
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("the fields are %v, want %v", got, test.want)
		}
	}
	for _, org := range []string{"a\r\nX-Admin: yes", "a\nb", "a\x00b", "a\x7fb"} {
		_, err := b.serve(request("/", bearing(hs(claimsOf(fields{"org": org})))))
		b.refused("a claim with "+org, err, challengeToken)
	}
}

// TestSharedPrincipal: what one request does to its own fields is not seen by another
// with the same token.
func TestSharedPrincipal(t *testing.T) {
	b := newBed(t, JWT(), secretly("claims_to_headers: {X-User-Id: sub}"))
	token := hs(claimsOf(nil))
	for range 3 {
		r := request("/", bearing(token))
		if _, err := b.serve(r); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.Fields.Find("X-User-Id"); got != "u1" {
			t.Fatalf("X-User-Id is %q", got)
		}
		r.Fields.Set("X-User-Id", "changed")
	}
}

// TestReload: what is remembered outlives a reload that changes nothing, and no other.
func TestReload(t *testing.T) {
	k := tokenKeys()
	both := `{"keys":[` + rsaJWK("k1", k.rsa) + "," + rsaJWK("k2", k.other) + `]}`
	one := `{"keys":[` + rsaJWK("k2", k.other) + `]}`
	b := newBed(t, JWT(), issuer("jwks_file: keys.json"), "keys.json", both)
	token := rs(k.rsa, "k1", claimsOf(nil))
	serve := func() error {
		if _, err := b.serve(request("/", bearing(token))); err != nil {
			return err
		}
		return nil
	}
	if err := serve(); err != nil {
		t.Fatal(err)
	}
	b.load(issuer("jwks_file: keys.json"))
	if err := serve(); err != nil {
		t.Error(err)
	}
	b.write("keys.json", one)
	b.load(issuer("jwks_file: keys.json"))
	if err := serve(); err == nil {
		t.Error("a token passes by a key that was taken away")
	}
	b.write("keys.json", both)
	b.load(issuer("jwks_file: keys.json"))
	if err := serve(); err != nil {
		t.Error(err)
	}
	b.load(strings.TrimSuffix(issuer("jwks_file: keys.json"), "}") + ", required_claims: [more]}")
	if err := serve(); err == nil {
		t.Error("a token passes that lacks what is required now")
	}
}

// TestEndOfRemembered: a token that is remembered ends as any other.
func TestEndOfRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, JWT(), secretly("leeway: 0s"))
		token := hs(claimsOf(fields{"exp": time.Now().Add(2 * time.Second).Unix()}))
		for range 2 {
			if _, err := b.serve(request("/", bearing(token))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second - time.Nanosecond)
		}
		time.Sleep(2 * time.Nanosecond)
		_, err := b.serve(request("/", bearing(token)))
		b.refused("a token that has ended", err, challengeToken)
	})
}

// TestClaimsThatAreNoNames: who cannot be named in a log is nobody.
func TestClaimsThatAreNoNames(t *testing.T) {
	b := newBed(t, JWT(), secretly("tier_claim: tier"))
	long := strings.Repeat("a", pipeline.LongestName+1)
	for name, claims := range map[string]fields{
		"a long consumer": {"sub": long}, "a consumer of two lines": {"sub": "a\nb"}, "a long tier": {"tier": long}, "a long group": {"groups": []string{"a", long}},
	} {
		_, err := b.serve(request("/", bearing(hs(claimsOf(claims)))))
		b.refused(name, err, challengeToken)
	}
}

func TestJWTRole(t *testing.T) {
	b := newBed(t, JWT(), secretly())
	gateway, _ := b.resolve(secretly())
	if role := gateway.Routes[0].Chain[0].Role; role != model.Authenticating {
		t.Errorf("the role is %v", role)
	}
}

// engine counts what runs aside.
type engine struct {
	context.Context
	aside *int
}

func (e engine) Block(f func()) { *e.aside++; f() }

// TestLongTokensAside: while a long token is verified others go on.
func TestLongTokensAside(t *testing.T) {
	b := newBed(t, JWT(), secretly())
	for length, want := range map[int]int{100: 0, longOnes: 1} {
		aside := 0
		x := pipeline.NewExchange(engine{t.Context(), &aside}, request("/", bearing(hs(claimsOf(fields{"a": strings.Repeat("x", length)})))), &model.Listener{}, netip.AddrPort{}, time.Now())
		if p, err := b.serveExchange(x); err != nil || p.Name != "u1" || aside != want {
			t.Errorf("%d bytes: %v, %v; %d aside, want %d", length, p, err, aside, want)
		}
	}
}
