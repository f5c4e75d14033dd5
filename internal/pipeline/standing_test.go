package pipeline_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func bare(t *testing.T) *pipeline.Exchange {
	t.Helper()
	return pipeline.NewExchange(t.Context(), &message.Request{}, &model.Listener{}, netip.AddrPort{}, time.Time{})
}

// TestStanding is told of the tightest limit.
func TestStanding(t *testing.T) {
	policy := pipeline.NewPolicy("p", 10, time.Minute)
	loose, tight := pipeline.Standing{Policy: policy, Remaining: 9, Reset: 6}, pipeline.Standing{Policy: policy, Remaining: 1, Reset: 7}
	later, denied := pipeline.Standing{Policy: policy, Remaining: 1, Reset: 8}, pipeline.Standing{Policy: policy, Remaining: 5, Denied: true}
	looser, tighter := pipeline.Standing{Policy: policy, Remaining: 8, Returned: true}, pipeline.Standing{Policy: policy, Remaining: 7, Returned: true}
	dear, cheap := pipeline.Standing{Policy: policy, Remaining: 50, Cost: 10, Reset: 6}, pipeline.Standing{Policy: policy, Remaining: 9, Cost: 1, Reset: 6}
	for _, c := range []struct {
		met  []pipeline.Standing
		want pipeline.Standing
	}{
		{[]pipeline.Standing{loose}, loose},
		{[]pipeline.Standing{loose, tight}, tight},
		{[]pipeline.Standing{tight, loose}, tight},
		{[]pipeline.Standing{tight, later}, later},
		{[]pipeline.Standing{later, tight}, later},
		{[]pipeline.Standing{dear, cheap}, dear},
		{[]pipeline.Standing{cheap, dear}, dear},
		{[]pipeline.Standing{dear, tight}, tight},
		{[]pipeline.Standing{tight, denied}, denied},
		{[]pipeline.Standing{denied, tight}, denied},
		{[]pipeline.Standing{tight, looser, tighter}, tighter},
		{[]pipeline.Standing{tight, tighter, looser}, tighter},
		{[]pipeline.Standing{tight, denied, looser}, denied},
	} {
		x := bare(t)
		for _, s := range c.met {
			x.Stand(s)
		}
		if x.Standing != c.want {
			t.Errorf("%+v: %+v", c.met, x.Standing)
		}
	}
}

func TestStandingFields(t *testing.T) {
	var fields message.Fields
	fields.Add("x-ratelimit-limit", "of the endpoint")
	s := pipeline.Standing{Policy: pipeline.NewPolicy(`a "b" \ é`, 10, 1500*time.Millisecond), Remaining: 7, Reset: 100 * time.Millisecond}
	s.Put(&fields)
	for name, want := range map[string]string{
		"RateLimit-Policy":      `"a \"b\" \\ _";q=10;w=2`,
		"RateLimit":             `"a \"b\" \\ _";r=7;t=1`,
		"X-RateLimit-Limit":     "10",
		"X-RateLimit-Remaining": "7",
		"X-RateLimit-Reset":     "1",
	} {
		if got := slices.Collect(fields.Values(name)); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestEnd calls everything once, the last one first.
func TestEnd(t *testing.T) {
	x := bare(t)
	x.End()
	var order []int
	for i := range 3 {
		x.AtEnd(func() { order = append(order, i) })
	}
	x.End()
	x.End()
	if !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("%v", order)
	}
}
