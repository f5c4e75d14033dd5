package pipeline

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestNewID(t *testing.T) {
	now := time.UnixMilli(1796000000123)
	seen := map[string]bool{}
	for range 1000 {
		text := newID(now)
		id, err := uuid.Parse(text)
		if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 || id.String() != text {
			t.Fatalf("%q: %v", text, err)
		}
		if seconds, nanoseconds := id.Time().UnixTime(); !time.Unix(seconds, nanoseconds).Equal(now) {
			t.Errorf("%q is of %v", text, time.Unix(seconds, nanoseconds))
		}
		if seen[text] {
			t.Errorf("%q came twice", text)
		}
		seen[text] = true
	}
	if n := testing.AllocsPerRun(100, func() { newID(now) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
