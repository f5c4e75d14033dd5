package h2

import "time"

// budget bounds how often something may happen that a client gets for little and
// that costs the gateway: a bucket that time fills slowly, and useful work
// faster. It is told the time.
type budget struct {
	most   float64 // that it holds
	refill float64 // a second
	level  float64
	since  time.Time
}

func newBudget(most, refill float64, now time.Time) budget {
	return budget{most: most, refill: refill, level: most, since: now}
}

// spend takes n out; false says that they are not there.
func (b *budget) spend(n float64, now time.Time) bool {
	if passed := now.Sub(b.since); passed > 0 {
		b.level = min(b.most, b.level+passed.Seconds()*b.refill)
		b.since = now
	}
	b.level -= n
	return b.level >= 0
}

// earn puts n in.
func (b *budget) earn(n float64) { b.level = min(b.most, b.level+n) }

// What the budgets of a connection hold.
const (
	// controlBurst are frames that carry nothing: SETTINGS, PING, PRIORITY,
	// WINDOW_UPDATE, empty DATA, unknown ones. A connection's begin has some; later
	// ones come with what is sent: two WINDOW_UPDATE for each 4 KiB is what Go's
	// own client does, which is the most talkative one known.
	controlBurst = 2000
	controlRate  = 200
	controlBytes = 1 << 10 // of DATA sent earn one
	// resetBurst are streams that the client ends soon after their begin, before
	// they were served, be it by RST_STREAM or by what must be answered so
	// (CVE-2023-44487, CVE-2025-8671). Each one served earns one.
	resetBurst = 500
	resetRate  = 50
	// resetSoon is the age from which on ending a stream is no abuse.
	resetSoon = time.Second
	// maxReplies bounds the replies that wait for the client to read.
	maxReplies = 1000
)
