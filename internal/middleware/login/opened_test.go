package login

import (
	"encoding/base64"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMemory of sessions that are remembered goes by what they take up, not by the fields
// that came along with them.
func TestMemory(t *testing.T) {
	const sessions, beside = 500, 64 << 10 // bytes of a request's fields
	b := newBed(t, usualOptions)
	now := time.Now().Unix()
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"ann","email":"ann@example.com"}`))
	s := &session{IDToken: "x." + claims + ".y", Began: now, Due: now + 1000, Until: now + 2000}
	before := inUse()
	for range sessions {
		text, err := b.gate.keeper.save(t.Context(), s, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Repeat("x", beside) + text
		if _, err := b.gate.opened(fields[beside:], fields[beside:]); err != nil {
			t.Fatal(err)
		}
	}
	if taken := inUse() - before; taken > sessions*beside/2 {
		t.Errorf("%d sessions take up %d bytes", sessions, taken)
	}
	runtime.KeepAlive(b.gate)
}

// inUse is how many bytes of memory are in use.
func inUse() int {
	runtime.GC() //nolint:revive // what is in use is asked about
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// TestRemembered sessions are found again; of large ones there are fewer.
func TestRemembered(t *testing.T) {
	o := newOpened(&settings{secrets: []string{"0123456789abcdef"}}, nil)
	for _, c := range []struct{ size, most int }{{light, mostOpened}, {light + 1, mostOpened / heavyShare}} {
		sealed := strings.Repeat("x", c.size)
		var last *held
		for n := range uint64(c.most + 100) {
			last = &held{sealed: sealed}
			binary.BigEndian.PutUint64(last.mark[:], n)
			o.remember(last)
		}
		if o.find(last.mark, sealed) != last {
			t.Errorf("one of %d bytes is not found", c.size)
		}
		if n := o.of(sealed).Len(); n != c.most {
			t.Errorf("%d of %d bytes are remembered, not %d", n, c.size, c.most)
		}
	}
}
