// Package message breaks no rule, however close it comes.
package message

import (
	"errors"
	"fmt"
	"sync"
)

// ErrEmpty is read, never changed.
var ErrEmpty = errors.New("empty")

var words = map[int]string{1: "one"}

var table = func() []string { return []string{words[1]} }()

var text = sync.OnceValue(func() string { return table[0] })

// Message has state, of its own.
type Message struct {
	mu    sync.Mutex
	count int
}

// Count changes what belongs to an object, and a local that hides a table.
func (m *Message) Count() (total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	words := map[int]string{}
	words[1] = text()
	delete(words, 1)
	defer func() {
		if cause := recover(); cause != nil {
			panic(cause)
		}
	}()
	if m.count < 0 {
		panic(fmt.Sprintf("BUG: %d messages", m.count))
	}
	if len(words) > 0 {
		panic("BUG: words: " + words[1])
	}
	return m.count
}
