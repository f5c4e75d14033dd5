package main

import "testing"

func TestGrowthFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 600, 1 << 20: 600, 4 << 20: 500, 8 << 20: 200, 12 << 20: 100, 11 << 20: 100, 1 << 30: 100, 1 << 40: 100} {
		if got := growthFor(live); got != want {
			t.Errorf("of %d bytes: %d%%, want %d%%", live, got, want)
		}
	}
}
