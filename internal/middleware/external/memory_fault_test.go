package external

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/internal/keyed"
)

// TestFaultOfAQuestion: a panic is one of the exchanges that wait, and not the end of the
// process.
func TestFaultOfAQuestion(t *testing.T) {
	m := newMemory(&cacheSettings{TTL: time.Hour, Max: 1})
	key := keyed.Digest{1}
	q, first, d := m.join(key, time.Minute, func(context.Context) (*decision, error) { panic("too odd") })
	if q == nil || !first || d != nil {
		t.Fatal(q, first, d)
	}
	defer func() {
		if value, _ := recover().(string); !strings.HasPrefix(value, "BUG: asking an authorization service panicked: too odd\n") {
			t.Errorf("panicked with %q", value)
		}
		if len(m.asked) != 0 {
			t.Error("the question is still there")
		}
	}()
	_, _ = m.wait(t.Context(), key, q)
}
