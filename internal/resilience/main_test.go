package resilience

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is when the tests' time begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// after is so many milliseconds later.
func after(milliseconds int) time.Time {
	return epoch.Add(time.Duration(milliseconds) * time.Millisecond)
}
