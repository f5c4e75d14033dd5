// Package logtest keeps what is logged, for tests to look at. It is for tests only, and
// imports nothing of Sluice, so that every package's tests can have it.
package logtest

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer is a text that a test reads while others write. Its zero value is empty and
// ready; its methods are for any goroutine.
type Buffer struct {
	// Most bounds it: at least the last so many bytes are kept; 0: all.
	Most int

	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the text. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Most > 0 && b.text.Len() > 2*b.Most {
		b.text.Next(b.text.Len() - b.Most)
	}
	return b.text.Write(p)
}

// String is the text so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Count tells how often something stands in the text.
func (b *Buffer) Count(what string) int { return strings.Count(b.String(), what) }

// Reset empties the text.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}
