package pipeline_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sluice/internal/pipeline"
)

// TestClaims finds claims by names and by paths, and makes text of them.
func TestClaims(t *testing.T) {
	decoder := json.NewDecoder(strings.NewReader(`{
		"sub": "ann", "n": 1000000, "big": 12345678901234567890, "yes": true, "none": null,
		"realm_access": {"roles": ["a", "b"], "deep": {"x.y": "z"}}, "a.b": "whole", "a": {"b": "inner", "c": "d"},
		"https://example.com/roles": ["r"]}`))
	decoder.UseNumber()
	var p pipeline.Principal
	if err := decoder.Decode(&p.Claims); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"sub": "ann", "n": "1000000", "big": "12345678901234567890", "yes": "true", "none": "",
		"realm_access.roles": "a,b", "realm_access.deep.x.y": "z", "a.b": "whole", "a.c": "d",
		"https://example.com/roles": "r", "a": `{"b":"inner","c":"d"}`,
	} {
		value, there := p.Claim(path)
		if got := pipeline.ClaimText(value); !there || got != want {
			t.Errorf("%s is %q (%v), want %q", path, got, there, want)
		}
	}
	for _, path := range []string{"", ".", "a.", "a.x", "sub.x", "realm_access.", "nothing.at.all"} {
		if value, there := p.Claim(path); there {
			t.Errorf("%q is %v, want nothing", path, value)
		}
	}
	if _, there := (*pipeline.Principal)(nil).Claim("sub"); there {
		t.Error("nobody has a claim")
	}
}

// TestAuthenticate puts together what several middleware say of a client.
func TestAuthenticate(t *testing.T) {
	var x pipeline.Exchange
	first := &pipeline.Principal{Name: "shop", Tier: "gold", Groups: []string{"a"}, Claims: map[string]any{"sub": "1", "k": "v"}}
	x.Authenticate(first)
	if x.Consumer != "shop" || x.Principal != first {
		t.Errorf("consumer %q, principal %+v", x.Consumer, x.Principal)
	}
	x.Authenticate(&pipeline.Principal{Name: "ann", Groups: []string{"b"}, Claims: map[string]any{"sub": "2"}})
	p := x.Principal
	if x.Consumer != "ann" || p.Tier != "gold" || !slices.Equal(p.Groups, []string{"a", "b"}) || p.Claims["sub"] != "2" || p.Claims["k"] != "v" {
		t.Errorf("consumer %q, principal %+v", x.Consumer, p)
	}
	if first.Name != "shop" || len(first.Groups) != 1 || first.Claims["sub"] != "1" {
		t.Errorf("the first one has changed: %+v", first)
	}
	x.Authenticate(&pipeline.Principal{Groups: []string{"c"}})
	if x.Consumer != "ann" || x.Principal.Claims["sub"] != "2" {
		t.Errorf("consumer %q, principal %+v", x.Consumer, x.Principal)
	}
}

// TestAuthenticateShares: what one of two says alone is not copied, and neither changes.
func TestAuthenticateShares(t *testing.T) {
	claims := map[string]any{"sub": "1"}
	all := &pipeline.Principal{Name: "ann", Tier: "gold", Groups: []string{"a"}, Claims: claims}
	name := &pipeline.Principal{Name: "shop"}
	for _, order := range [][]*pipeline.Principal{{all, name}, {name, all}} {
		var x pipeline.Exchange
		allocations := testing.AllocsPerRun(10, func() {
			x.Principal = nil
			x.Authenticate(order[0])
			x.Authenticate(order[1])
		})
		p := x.Principal
		if p.Name != order[1].Name || x.Consumer != p.Name || p.Tier != "gold" || !slices.Equal(p.Groups, all.Groups) || p.Claims["sub"] != "1" || allocations > 1 {
			t.Errorf("%+v, consumer %s, %v allocations", p, x.Consumer, allocations)
		}
		_ = append(p.Groups, "more")
	}
	if len(all.Groups) != 1 || len(claims) != 1 || name.Groups != nil || name.Claims != nil || name.Tier != "" {
		t.Errorf("one of them has changed: %+v, %+v", all, name)
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "ann": true, "Ann Lee, Ümit": true, strings.Repeat("a", pipeline.LongestName): true,
		strings.Repeat("a", pipeline.LongestName+1): false, "a\nb": false, "a\x00": false, "\t": false, "a\u0085": false, "a\xff": false,
	} {
		if got := pipeline.ValidName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
