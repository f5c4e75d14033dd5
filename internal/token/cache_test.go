package token

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/keyed"
)

func numbered(n int) keyed.Digest {
	var text [8]byte
	binary.BigEndian.PutUint64(text[:], uint64(n))
	return sha256.Sum256(text[:])
}

func TestCache(t *testing.T) {
	c := NewCache[int](100, 30*time.Second)
	end := &Verified{expires: now.Add(time.Minute)}
	one, two := numbered(1), numbered(2)
	if _, _, ok := c.Get(&one, now); ok || c.Len() != 0 {
		t.Error("a token was remembered that nobody put there")
	}
	c.Put(&one, end, 7, 0, now)
	if verified, value, ok := c.Get(&one, now); !ok || verified != end || value != 7 {
		t.Error("a token was forgotten")
	}
	if _, _, ok := c.Get(&two, now); ok {
		t.Error("another token was found")
	}
}

// TestCacheEnds remembers a token for as long as a verifier could take it.
func TestCacheEnds(t *testing.T) {
	c, one := NewCache[int](100, 30*time.Second), numbered(1)
	c.Put(&one, &Verified{expires: now.Add(time.Minute)}, 7, 0, now)
	if _, _, ok := c.Get(&one, now.Add(90*time.Second-1)); !ok {
		t.Error("a token was forgotten within the leeway")
	}
	if _, _, ok := c.Get(&one, now.Add(90*time.Second)); ok {
		t.Error("a token was remembered that has expired")
	}
}

// TestCacheIsBounded: any number of tokens takes no more memory than the cache may, and those
// that are used stay.
func TestCacheIsBounded(t *testing.T) {
	const most, tokens = 10_000, manyTokens
	c := NewCache[*[200]byte](most, time.Second)
	hot := numbered(-1)
	c.Put(&hot, &Verified{expires: now.Add(time.Hour)}, nil, 0, now)
	var full int64
	for i := range tokens {
		d := numbered(i)
		c.Put(&d, &Verified{expires: now.Add(time.Hour)}, new([200]byte), 0, now)
		if i%1000 == 0 {
			c.Get(&hot, now)
		}
		if i == 2*most {
			full = memory()
		}
	}
	if c.Len() > most {
		t.Errorf("%d tokens are remembered", c.Len())
	}
	if grown := memory() - full; grown > 2<<20 {
		t.Errorf("memory grew by %d bytes after the cache was full", grown)
	}
	if _, _, ok := c.Get(&hot, now); !ok {
		t.Error("the token that was used all the time is forgotten")
	}
}

// memory is how many bytes are held.
func memory() int64 {
	runtime.GC() //nolint:revive // what is counted is what is held, not what is left over
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// claimsOfForms are JSON of about so many bytes, each of which takes up memory in its way.
func claimsOfForms(bytes int) map[string]string {
	fill := func(item func(i int) string) string {
		var text strings.Builder
		for i := 0; text.Len() < bytes; i++ {
			if i > 0 {
				text.WriteByte(',')
			}
			text.WriteString(item(i))
		}
		return text.String()
	}
	always := func(text string) string { return fill(func(int) string { return text }) }
	return map[string]string{
		"numbers":       `{"a":[` + always("1") + `]}`,
		"lists":         `{"a":[` + always("[]") + `]}`,
		"objects":       `{"a":[` + always("{}") + `]}`,
		"small objects": `{"a":[` + always(`{"":1}`) + `]}`,
		"texts":         `{"a":[` + always(`"0123456789abcdef0123456789abcdef-"`) + `]}`,
		"truth":         `{"a":[` + always("true") + `]}`,
		"members":       `{` + fill(func(i int) string { return fmt.Sprintf(`"%d":0`, i) }) + `}`,
		"one text":      `{"a":"` + strings.Repeat("x", bytes) + `"}`,
	}
}

// TestWeigh holds what claims are thought to take up to what they do, in all forms.
func TestWeigh(t *testing.T) {
	for _, bytes := range []int{1000, 11_000} {
		for form, text := range claimsOfForms(bytes) {
			const copies = 40
			all := make([]map[string]any, copies)
			before := memory()
			for i := range all {
				var err error
				if all[i], err = readObject([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			took := (memory() - before) / copies
			if thought := int64(weigh(all[0])); took > thought*5/4+1000 || thought > 3*took+2000 {
				t.Errorf("%s of %d bytes take up %d, %d are thought", form, bytes, took, thought)
			}
			runtime.KeepAlive(all)
		}
	}
}

// TestCacheIsBoundedInBytes: large tokens that are good take up no more than a cache may.
func TestCacheIsBoundedInBytes(t *testing.T) {
	const most, tokens = 32, 200
	for _, bytes := range []int{2000, 11_000} {
		for form, text := range claimsOfForms(bytes) {
			c := NewCache[int](most, time.Second)
			before := memory()
			for i := range tokens {
				claims, err := readObject([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				d := numbered(i)
				c.Put(&d, &Verified{Claims: claims, expires: now.Add(time.Hour)}, 0, 0, now)
			}
			if took := memory() - before; took > most*(12<<10)*5/4+(64<<10) {
				t.Errorf("%s of %d bytes: %d tokens take up %d bytes", form, bytes, c.Len(), took)
			}
			runtime.KeepAlive(c)
		}
	}
}

// TestCacheOfLargeTokens has a place for some large tokens, and none for huge ones; what
// was made of them counts, too.
func TestCacheOfLargeTokens(t *testing.T) {
	end := &Verified{expires: now.Add(time.Minute)}
	for size, want := range map[int]int{0: 320, light: 320, light + 1: 20, heavy: 20, heavy + 1: 0} {
		c := NewCache[int](320, time.Second)
		for i := range 1000 {
			d := numbered(i)
			c.Put(&d, end, 7, size-weigh(end.Claims), now)
			if _, value, ok := c.Get(&d, now); ok != (want > 0) || ok && value != 7 {
				t.Fatalf("%d bytes: remembered: %v", size, ok)
			}
		}
		if c.Len() != want {
			t.Errorf("of %d bytes %d are remembered, want %d", size, c.Len(), want)
		}
	}
}
