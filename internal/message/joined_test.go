package message

import (
	"maps"
	"strings"
	"testing"
)

func TestJoined(t *testing.T) {
	var fields Fields
	for _, line := range []string{"A: 1", "Cookie: x=1", "a:  2\t", "Empty: ", "B: 3", "cookie: y=2", "A: ", "A_B: 5"} {
		name, value, _ := strings.Cut(line, ":")
		fields.Add(name, strings.TrimPrefix(value, " "))
	}
	for name, want := range map[string]string{"a": "1, 2, ", "B": "3", "cookie": "x=1; y=2", "empty": "", "a-b": "none"} {
		value, there := fields.Joined(", ", func(other string) bool { return SameName(name, other) })
		if there != (want != "none") || there && value != want {
			t.Errorf("%s: %q, %v", name, value, there)
		}
	}
	all := fields.Map(",", func(line *Field) string {
		if line.Name == "B" {
			return ""
		}
		return strings.ToLower(line.Name)
	})
	if want := map[string]string{"a": "1,2,", "cookie": "x=1; y=2", "empty": "", "a_b": "5"}; !maps.Equal(all, want) {
		t.Errorf("%q", all)
	}
}

// TestJoinedManyLines: what many lines say is put together once, not anew for each.
func TestJoinedManyLines(t *testing.T) {
	const lines, size = 1000, 1000
	var f Fields
	for range lines {
		f.Add("X", strings.Repeat("y", size))
	}
	want := strings.Repeat(strings.Repeat("y", size)+", ", lines-1) + strings.Repeat("y", size)
	joined := func() string { value, _ := f.Joined(", ", func(name string) bool { return name == "X" }); return value }
	mapped := func() string { return f.Map(", ", func(line *Field) string { return line.Name })["X"] }
	for what, all := range map[string]func() string{"Joined": joined, "Map": mapped} {
		if all() != want {
			t.Errorf("%s says something else", what)
		}
		if n := testing.AllocsPerRun(3, func() { all() }); n > lines/10 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}
