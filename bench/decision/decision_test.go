//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

// TestRun measures all there is, briefly.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"-rounds", "1", "-duration", "1ms", "-keys", "100"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one key, one processor", "\n100 keys at random, all ", "\n| Sluice | ", "\n| `x/time/rate` in a `sync.Map` | ", "\n| `sethvargo/go-limiter` | "} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is not in:\n%s", text, out.String())
		}
	}
	for _, wrong := range []string{"-rounds=0", "-duration=0", "-keys=0", "-nonsense", "more"} {
		if err := run([]string{wrong}, &out); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

type never struct{}

func (never) take(string) bool { return false }
func (never) end() error       { return nil }

// TestRefused does not measure what refuses.
func TestRefused(t *testing.T) {
	if _, _, err := (&scenario{keys: []string{"a"}, goroutines: 2}).round(never{}, time.Millisecond); err == nil {
		t.Error("what refuses was measured")
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("the median of 3, 1, 2 is %v", got)
	}
}
