package canonical

import (
	"strings"
	"testing"
)

func TestHost(t *testing.T) {
	for authority, want := range map[string]string{
		"":                      "",
		"example.com":           "example.com",
		"EXAMPLE.Com":           "example.com",
		"example.com:8080":      "example.com",
		"example.com.":          "example.com",
		"example.com.:443":      "example.com",
		"example.com..":         "example.com.",
		"example.com:":          "example.com",
		"127.0.0.1:80":          "127.0.0.1",
		"[::1]":                 "::1",
		"[2001:DB8::1]:8443":    "2001:db8::1",
		"[::1":                  "[::1",
		"[]:80":                 "",
		"xn--bcher-kva.example": "xn--bcher-kva.example",
	} {
		if got := Host(authority); got != want {
			t.Errorf("%q: %q, want %q", authority, got, want)
		}
	}
}

func TestHostOfAPlainNameDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Host("api.example.com:8080") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestValidAuthority(t *testing.T) {
	for _, valid := range []string{
		"a", "example.com", "example.com.", "example.com:80", "example.com:", "127.0.0.1", "a_b.example", "A-1", "a%20b",
		"[::1]", "[::1]:443", "[2001:db8::1]", "[::ffff:1.2.3.4]", "x:65535", "!$&'()*+,;=",
	} {
		if !ValidAuthority(valid) {
			t.Errorf("%q is refused", valid)
		}
	}
	for _, invalid := range []string{
		"", ":80", "a:b", "a:80:90", "a:-1", "a:123456", "a b", " a", "a ", "a/b", "a?b", "a#b", "user@a", "a\\b", "a\x00b", "a\r\nb", "ü", "a\x80", "a\"b", "<a>",
		"[::1", "::1", "[::1]x", "[::1]:x", "[1.2.3.4]", "[fe80::1%eth0]", "[]", "[x]", "a, b", strings.Repeat("a", 3) + "\t",
	} {
		if ValidAuthority(invalid) {
			t.Errorf("%q passes", invalid)
		}
	}
}
