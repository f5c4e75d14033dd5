package resilience

import "time"

// buckets is how many parts a window slides in.
const buckets = 10

// Tally is what became of requests.
type Tally struct{ Requests, Failures, Slow int }

func (t *Tally) add(o Tally) {
	t.Requests += o.Requests
	t.Failures += o.Failures
	t.Slow += o.Slow
}

func (t *Tally) subtract(o Tally) {
	t.Requests -= o.Requests
	t.Failures -= o.Failures
	t.Slow -= o.Slow
}

// Window counts what happened lately. It slides in ten steps: what is younger than
// nine tenths of its length counts, what is older than its length does not. It is
// guarded by whoever holds it.
type Window struct {
	width time.Duration // of a bucket
	start time.Time     // of the bucket that is counted in; zero: nothing was counted yet
	at    int           // that bucket
	parts [buckets]Tally
	sum   Tally // of all parts
}

// NewWindow returns an empty window.
func NewWindow(length time.Duration) Window {
	return Window{width: max(length/buckets, 1)}
}

// Add counts t. A time before one that was told already counts as that one.
func (w *Window) Add(now time.Time, t Tally) {
	w.slide(now)
	w.parts[w.at].add(t)
	w.sum.add(t)
}

// Sum returns what the window holds.
func (w *Window) Sum(now time.Time) Tally {
	w.slide(now)
	return w.sum
}

// slide forgets what is too old.
func (w *Window) slide(now time.Time) {
	since := now.Sub(w.start)
	if since < w.width {
		return
	}
	if w.start.IsZero() {
		w.start = now
		return
	}
	w.start = now.Add(-(since % w.width))
	for range min(since/w.width, buckets) {
		w.at = (w.at + 1) % buckets
		w.sum.subtract(w.parts[w.at])
		w.parts[w.at] = Tally{}
	}
}
