package limit

import (
	"fmt"
	"strings"

	"sluice/internal/model"
)

// mostKeys is how many keys a limit may remember at most. What is more is a
// slip of the pen: it would take tens of gigabytes.
const mostKeys = 100_000_000

// validateMaxKeys reports a max_keys that cannot be meant.
func validateMaxKeys(n int, report model.Report) {
	switch {
	case n < 1:
		report("max_keys", fmt.Sprintf("max_keys must be at least 1, not %d", n), "")
	case n > mostKeys:
		report("max_keys", fmt.Sprintf("max_keys must be at most %d, not %d", mostKeys, n), "each key takes some hundred bytes while it is remembered")
	}
}

// longestName is how many characters a name has at most, as those of middleware: two
// fields of each response bear it.
const longestName = 128

// validateName reports a name that clients could not be told: fields of HTTP have but
// printable ASCII for it (RFC 9651 3.3.3), and not room for all.
func validateName(name string, report model.Report) {
	if len(name) > longestName {
		report("name", fmt.Sprintf("name has %d characters, it may have %d", len(name), longestName), "clients are told it with each response")
		return
	}
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c > '~' }) {
		report("name", fmt.Sprintf("the name %+q has characters that clients cannot be told", name), "use printable ASCII")
	}
}
