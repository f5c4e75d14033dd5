package limit_test

import (
	"strings"
	"testing"
)

// TestOneProblem tells each fault once, and nothing besides that follows from it.
func TestOneProblem(t *testing.T) {
	for chain, want := range map[string]string{
		"{rate_limit: }": "rate_limit needs the key rate",
		"{rate_limit: {rate: 0/s, adaptive: {}}}":                           "rate",
		"{rate_limit: {rate: 1/s, name: ü}}":                                `the name "\u00fc" has characters that clients cannot be told`,
		`{rate_limit: {rate: 1/s, name: "a\r\nb"}}`:                         `the name "a\r\nb" has characters that clients cannot be told`,
		`{rate_limit: {rate: 1/s, name: "a\x7f"}}`:                          `the name "a\x7f" has characters that clients cannot be told`,
		`{rate_limit: {rate: 1/s, name: "a \"b\\"}}`:                        "",
		"{rate_limit: {rate: 1/s, name: " + strings.Repeat("n", 128) + "}}": "",
		"{rate_limit: {rate: 1/s, name: " + strings.Repeat("n", 129) + "}}": "name has 129 characters, it may have 128",
		`{rate_limit: {rate: 1/s, tiers: {"": {rate: 2/s}}}}`:               "a tier has an empty name, as who has none",
		"{rate_limit: {rate: 1/s, max_keys: 100000000}}":                    "",
		"{rate_limit: {rate: 1/s, max_keys: 99999999999}}":                  "max_keys must be at most 100000000, not 99999999999",
		"{concurrency_limit: {max: 1, max_keys: 100000001}}":                "max_keys must be at most 100000000, not 100000001",
		"{rate_limit: {rate: 99999999999/s, adaptive: {floor: 2000000/s}}}": "the rate is 99999999999",
	} {
		_, problems := problemsOf(chain)
		switch {
		case want == "" && len(problems) > 0:
			t.Errorf("%s: %q", chain, problems)
		case want != "" && (len(problems) != 1 || !strings.Contains(problems[0], ": "+want)):
			t.Errorf("%s:\n got %q\nwant %q alone", chain, problems, want)
		}
	}
}
