package limit_test

import (
	"testing"

	"sluice/internal/pipeline"
)

// TestPrefix counts addresses of IPv6 by their networks, and those of IPv4 whole, however
// they are written.
func TestPrefix(t *testing.T) {
	const one, next, far = "2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1"
	for _, c := range []struct {
		options string
		clients []string
		want    []int // that pass of five each
	}{
		{"", []string{one, next}, []int{2, 2}},
		{"ipv6_prefix: 128", []string{one, next}, []int{2, 2}},
		{"ipv6_prefix: 64", []string{one, next, far}, []int{2, 0, 2}},
		{"ipv6_prefix: 48", []string{one, next, far, "2001:db8:2::1"}, []int{2, 0, 0, 2}},
		{"ipv6_prefix: 64, key: [client_ip, route]", []string{one, next, far}, []int{2, 0, 2}},
		{"ipv6_prefix: 1", []string{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "::ffff:192.0.2.3", one, "::1"}, []int{2, 0, 2, 2, 2, 0}},
	} {
		t.Run(c.options, func(t *testing.T) {
			b := newBed(t)
			h := b.chain("{rate_limit: {rate: 2/h, "+c.options+"}}", answer)
			for i, client := range c.clients {
				if got := b.passes(h, 5, pipeline.RateLimited, func() *pipeline.Exchange { return request(t.Context(), client) }); got != c.want[i] {
					t.Errorf("%d of %s passed, want %d", got, client, c.want[i])
				}
			}
		})
	}
}

// TestPrefixOfConcurrency has a network share the places.
func TestPrefixOfConcurrency(t *testing.T) {
	b := newBed(t)
	h := b.chain("{concurrency_limit: {max: 1, key: client_ip, ipv6_prefix: 64}}", answer)
	first := request(t.Context(), "2001:db8:1:2::1") // it has not ended
	for _, c := range []struct {
		x      *pipeline.Exchange
		passes bool
	}{{first, true}, {request(t.Context(), "2001:db8:1:2::2"), false}, {request(t.Context(), "2001:db8:1:3::1"), true}} {
		if err := h.Serve(c.x); (err == nil) != c.passes {
			t.Errorf("%s: %v", c.x.ClientText(), err)
		}
		t.Cleanup(c.x.End)
	}
}

// TestPrefixReload goes on where the whole address counts before and after.
func TestPrefixReload(t *testing.T) {
	b := newBed(t)
	of := func() *pipeline.Exchange { return request(t.Context(), "2001:db8::1") }
	b.passes(b.chain("{rate_limit: {rate: 10/h}}", answer), 5, "", of)
	if got := b.passes(b.chain("{rate_limit: {rate: 10/h, ipv6_prefix: 128}}", answer), 20, pipeline.RateLimited, of); got != 5 {
		t.Errorf("%d of the five that are left passed", got)
	}
}

func TestPrefixProblems(t *testing.T) {
	for chain, want := range map[string]string{
		"{rate_limit: {rate: 1/s, ipv6_prefix: 1}}":                           "",
		"{rate_limit: {rate: 1/s, ipv6_prefix: 0}}":                           "ipv6_prefix must be from 1 to 128, not 0",
		"{rate_limit: {rate: 1/s, ipv6_prefix: -64}}":                         "ipv6_prefix must be from 1 to 128, not -64",
		"{rate_limit: {rate: 1/s, ipv6_prefix: 129}}":                         "ipv6_prefix must be from 1 to 128, not 129",
		"{rate_limit: {rate: 1/s, ipv6_prefix: /64}}":                         "ipv6_prefix must be a whole number",
		"{rate_limit: {rate: 1/s, ipv6_prefix: 64, key: global}}":             "ipv6_prefix needs the key client_ip",
		"{rate_limit: {rate: 1/s, ipv6_prefix: 128, key: [route, global]}}":   "ipv6_prefix needs the key client_ip",
		"{rate_limit: {rate: 1/s, ipv6_prefix: 64, key: [route, client_ip]}}": "",
		"{concurrency_limit: {max: 1, ipv6_prefix: 64}}":                      "ipv6_prefix needs the key client_ip",
		"{concurrency_limit: {max: 1, ipv6_prefix: 0, key: client_ip}}":       "ipv6_prefix must be from 1 to 128, not 0",
		"{concurrency_limit: {max: 1, ipv6_prefix: 48, key: client_ip}}":      "",
	} {
		wantProblem(t, chain, want)
	}
}

// TestMaxKeysReload counts on what runs and is used up where a limit is to remember more
// keys, or fewer.
func TestMaxKeysReload(t *testing.T) {
	b := newBed(t)
	of := func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1") }
	chain := func(keys string) string {
		return "{concurrency_limit: {max: 2, key: client_ip, max_keys: " + keys + "}}, {rate_limit: {rate: 10/h, max_keys: " + keys + "}}, {rate_limit: {name: a, rate: 10/h, adaptive: {}, max_keys: " + keys + "}}"
	}
	running := of()
	t.Cleanup(running.End)
	if err := b.reload(chain("1"), answer).Serve(running); err != nil {
		t.Fatal(err)
	}
	for i, keys := range []string{"1000", "2", "1"} {
		h := b.reload(chain(keys), answer)
		second, third := of(), of()
		if err := h.Serve(second); err != nil {
			t.Fatalf("with %s keys: %v", keys, err)
		}
		if left := second.Standing.Remaining; left != int64(8-i) {
			t.Errorf("with %s keys %d are left", keys, left)
		}
		if err := h.Serve(third); err == nil || pipeline.AsError(err).Word != pipeline.Overloaded {
			t.Errorf("with %s keys one too many: %v", keys, err)
		}
		third.End()
		second.End()
	}
	h := b.reload(chain("3"), answer)
	for _, client := range []string{"192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"} {
		x := request(t.Context(), client)
		if err := h.Serve(x); err != nil {
			t.Fatal(err)
		}
		x.End()
	}
	for _, status := range b.shown[len(b.shown)-3:] {
		if s := status(); s.Keys != 3 || s.AdaptiveRate != nil && s.AdaptiveRate.Keys != 3 {
			t.Errorf("%s remembers %d keys, %+v", s.Limit, s.Keys, s.AdaptiveRate)
		}
	}
}
