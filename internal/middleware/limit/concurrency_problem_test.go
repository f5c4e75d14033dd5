package limit_test

import "testing"

func TestConcurrencyProblems(t *testing.T) {
	for options, want := range map[string]string{
		"{max: 1}":                                 "",
		"{}":                                       "concurrency_limit needs the key max, or adaptive",
		"{max: 0}":                                 "max must be at least 1, not 0",
		"{max: 1, queue: -1}":                      "queue must be at least 0, not -1",
		"{max: 1, max_keys: 0}":                    "max_keys must be at least 1, not 0",
		"{max: 1, queue: 1, queue_timeout: 0s}":    "with queue_timeout 0 nobody could wait in the queue",
		"{adaptive: {}}":                           "",
		"{adaptive: }":                             "adaptive must be a mapping",
		"{max: 5, adaptive: {}}":                   "",
		"{max: 0, adaptive: {}}":                   "max must be at least 1, not 0",
		"{adaptive: {min: 50}}":                    "",
		"{adaptive: {max: 5}}":                     "",
		"{max: 9, adaptive: {min: 2, max: 8}}":     "",
		"{adaptive: {min: 2, initial: 2, max: 2}}": "",
		"{adaptive: {min: 0}}":                     "adaptive.min must be at least 1, not 0",
		"{adaptive: {min: 9, max: 8}}":             "adaptive.min is 9, which is more than the most, 8",
		"{adaptive: {max: 0}}":                     "adaptive.min is 1, which is more than the most, 0",
		"{adaptive: {min: 1001}}":                  "adaptive.min is 1001, which is more than the most, 1000",
		"{max: 8, adaptive: {min: 9}}":             "adaptive.min is 9, which is more than the most, 8",
		"{max: 8, adaptive: {max: 9}}":             "adaptive.max is 9, and max lets no more than 8 run",
		"{adaptive: {min: 5, initial: 4}}":         "adaptive.initial must be from 5 to 1000, not 4",
		"{adaptive: {max: 8, initial: 9}}":         "adaptive.initial must be from 1 to 8, not 9",
		"{adaptive: {limit: 9}}":                   "unknown key \"limit\"",
	} {
		wantProblem(t, "{concurrency_limit: "+options+"}", want)
	}
}
