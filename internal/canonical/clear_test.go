package canonical

import "testing"

func TestInClear(t *testing.T) {
	for url, want := range map[string]bool{
		"http://issuer.test/keys":        true,
		"http://10.0.0.1:80/":            true,
		"http://[2001:db8::1]:80/":       true,
		"http://127.0.0.1.test/":         true,
		"HTTP://issuer.test":             true,
		"https://issuer.test/":           false,
		"http://LocalHost:80/keys":       false,
		"http://localhost./":             false,
		"http://127.0.0.2/":              false,
		"http://[::1]:80/":               false,
		"http://[::1]/":                  false,
		"http://[::ffff:127.0.0.1]:8080": false,
		"http://a b/":                    false, // no URL
		"unix:/run/auth":                 false,
	} {
		if got := InClear(url); got != want {
			t.Errorf("%s: %v", url, got)
		}
	}
}
