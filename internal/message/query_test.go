package message

import "testing"

func TestParameter(t *testing.T) {
	for _, c := range []struct {
		query, name, value string
		there              bool
	}{
		{"?a=1&b=2", "b", "2", true},
		{"a=1&a=2", "a", "1", true},
		{"?a", "a", "", true},
		{"?%61=x%20y", "a", "x%20y", true},
		{"?a+b=1", "a b", "1", true},
		{"?a;b=1", "b", "", false},
		{"?ab=1", "a", "", false},
		{"", "a", "", false},
	} {
		value, there := Parameter(c.query, c.name)
		if value != c.value || there != c.there {
			t.Errorf("%s in %s: %q, %v", c.name, c.query, value, there)
		}
	}
	for encoded, text := range map[string]string{"x%20y": "x y", "a+b": "a b", "100%": "100%", "%zz": "%zz", "%41": "A", "plain": "plain"} {
		if got := DecodeParameter(encoded); got != text {
			t.Errorf("%s: %q", encoded, got)
		}
		if !ParameterIs(encoded, text) || ParameterIs(encoded, text+"x") || ParameterIs(encoded, "") {
			t.Errorf("%s is not told from other texts", encoded)
		}
	}
}
