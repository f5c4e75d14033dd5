package main

import "testing"

func TestGrowthFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 600, 1 << 20: 600, 4 << 20: 500, 8 << 20: 200, 12 << 20: 100, 11 << 20: 100, 1 << 30: 100, 1 << 40: 100} {
		if got := growthFor(live); got != want {
			t.Errorf("of %d bytes: %d%%, want %d%%", live, got, want)
		}
	}
}

// Calm that follows work is the time to collect.
func TestTidier(t *testing.T) {
	var tidy tidier
	for i, step := range []struct {
		allocated, collections uint64
		want                   bool
	}{
		{1 << 20, 1, false},
		{100, 0, false}, // not enough was allocated since
		{8 << 20, 0, false},
		{calmBytes + 1, 0, false},
		{calmBytes, 0, true},
		{100, 1, false}, // that was it
		{8 << 20, 1, false},
		{8 << 20, 0, false},
		{0, 0, true},
		{0, 1, false},
	} {
		now := usage{tidy.last.bytes + step.allocated, tidy.last.collections + step.collections}
		if got := tidy.due(now); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}
