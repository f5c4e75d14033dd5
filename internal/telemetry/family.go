package telemetry

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// overflow is every label of the series that a family has no room for.
const overflow = "_other"

// family resolves the series of one metric and bounds how many there are: past
// the limit, new label values share one series whose labels are all overflow.
// Every family with labels that configuration or traffic chooses goes through
// it. It is safe for concurrent use, takes a lock, and is not for the hot path.
type family[T any] struct {
	limit *atomic.Int64 // shared by all families; 0: without bound
	with  func(labels ...string) T

	mu     sync.Mutex
	series map[string]T
	other  *T
}

func newFamily[T any](limit *atomic.Int64, with func(labels ...string) T) *family[T] {
	return &family[T]{limit: limit, with: with, series: map[string]T{}}
}

// keyOf makes labels valid, and one text of them.
func keyOf(labels []string) string {
	for i, label := range labels {
		labels[i] = strings.ToValidUTF8(label, "\uFFFD") // the exposition formats know nothing else
	}
	return strings.Join(labels, "\xff") // no valid label holds this byte
}

// get returns the series with these label values. A series that exists stays
// its own when the limit is lowered.
func (f *family[T]) get(labels ...string) T {
	key := keyOf(labels)
	f.mu.Lock()
	defer f.mu.Unlock()
	if series, ok := f.series[key]; ok {
		return series
	}
	if limit := f.limit.Load(); limit > 0 && int64(len(f.series)) >= limit {
		if f.other == nil {
			others := make([]string, len(labels))
			for i := range others {
				others[i] = overflow
			}
			other := f.with(others...)
			f.other = &other
		}
		return *f.other
	}
	series := f.with(labels...)
	f.series[key] = series
	return series
}

// cache remembers what was resolved. Reading takes no lock and allocates
// nothing; each addition copies the map, of which there are few.
type cache[K comparable, V any] struct {
	mu      sync.Mutex
	current atomic.Pointer[map[K]V]
}

func (c *cache[K, V]) load(key K) (value V, ok bool) {
	if current := c.current.Load(); current != nil {
		value, ok = (*current)[key]
	}
	return value, ok
}

func (c *cache[K, V]) store(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[K]V{}
	if current := c.current.Load(); current != nil {
		next = maps.Clone(*current)
	}
	next[key] = value
	c.current.Store(&next)
}
