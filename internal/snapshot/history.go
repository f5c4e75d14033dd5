package snapshot

import (
	"sync"

	"sluice/internal/config"
)

// keptRevisions is how many revisions a History keeps with their documents: the
// newest ones.
const keptRevisions = 20

// History keeps the revisions of this process's life, newest last. The zero
// value is empty and ready; it is safe for concurrent use.
type History struct {
	mu      sync.Mutex
	entries []Entry
}

// Entry is a revision with its documents.
type Entry struct {
	Revision
	Documents []config.Document
}

// Add appends a revision; past the number that is kept the oldest goes.
func (h *History) Add(revision Revision, documents []config.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries = append(h.entries, Entry{revision, documents})
	if extra := len(h.entries) - keptRevisions; extra > 0 {
		clear(h.entries[:extra]) // else the array keeps their documents alive
		h.entries = h.entries[extra:]
	}
}

// List returns the revisions, newest first.
func (h *History) List() []Revision {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]Revision, 0, len(h.entries))
	for i := len(h.entries) - 1; i >= 0; i-- {
		list = append(list, h.entries[i].Revision)
	}
	return list
}

// Get returns one revision with its documents, and whether it is kept.
func (h *History) Get(number int) (Entry, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, entry := range h.entries {
		if entry.Number == number {
			return entry, true
		}
	}
	return Entry{}, false
}
