package limit_test

import (
	"slices"
	"testing"

	"sluice/internal/pipeline"
)

// TestKeysAreShown tells people what a limit counts by.
func TestKeysAreShown(t *testing.T) {
	b := newBed(t)
	b.chain(`{rate_limit: {rate: 1/h, key: ["header:X-App", client_ip], ipv6_prefix: 56}}, {rate_limit: {rate: 1/h, ipv6_prefix: 128}}, {concurrency_limit: {max: 1, key: client_ip, ipv6_prefix: 64}}, {concurrency_limit: {adaptive: {}}}`, answer)
	for i, want := range []struct {
		key  []string
		bits int
	}{{[]string{"header:X-App", "client_ip"}, 56}, {[]string{"client_ip"}, 0}, {[]string{"client_ip"}, 64}, {[]string{"upstream"}, 0}} {
		if got := b.shown[i](); !slices.Equal(got.Key, want.key) || got.IPv6Prefix != want.bits {
			t.Errorf("limit %d is shown with %q and a prefix of %d", i, got.Key, got.IPv6Prefix)
		}
	}
}

// TestNumbersAreShown tells people what each tier has, and what a request costs.
func TestNumbersAreShown(t *testing.T) {
	b := newBed(t)
	b.chain(`{rate_limit: {rate: 8/h, cost: 2, tier_by: consumer, tiers: {gold: {rate: 9/m, burst: 70}, tin: {rate: 6/s}}}}, {rate_limit: {rate: 8/h, algorithm: sliding_window, tier_by: consumer, tiers: {gold: {rate: 9/m}}}}`, answer)
	for i, want := range []pipeline.LimitStatus{
		{Cost: 2, Tiers: []pipeline.TierStatus{{Tier: "gold", Rate: "9/m", Burst: 70}, {Tier: "tin", Rate: "6/s", Burst: 6}}},
		{Tiers: []pipeline.TierStatus{{Tier: "gold", Rate: "9/m"}}},
	} {
		if got := b.shown[i](); got.Cost != want.Cost || !slices.Equal(got.Tiers, want.Tiers) {
			t.Errorf("limit %d is shown with a cost of %d and %+v", i, got.Cost, got.Tiers)
		}
	}
}
