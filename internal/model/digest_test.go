package model

import "testing"

func TestDigest(t *testing.T) {
	seen := map[string]int{}
	for i, values := range [][]any{{}, {""}, {"a"}, {"a", ""}, {"", "a"}, {"ab"}, {"a", "b"}, {[]string{"a", "b"}}, {1}, {"1"}} {
		digest := Digest(values...)
		if other, there := seen[digest]; there {
			t.Errorf("%d and %d have one digest", other, i)
		}
		if seen[digest] = i; digest != Digest(values...) {
			t.Errorf("%d has two digests", i)
		}
	}
}
