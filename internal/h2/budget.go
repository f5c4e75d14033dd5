package h2

import "time"

// budget bounds how often something may happen that a client gets for little and
// that costs the gateway: a bucket that time fills slowly, and useful work
// faster. It is told the time.
type budget struct {
	most   float64 // that time fills it to
	bank   float64 // that it holds
	refill float64 // a second
	level  float64
	since  time.Time
}

func newBudget(most, bank, refill float64, now time.Time) budget {
	return budget{most: most, bank: bank, refill: refill, level: most, since: now}
}

// spend takes n out; false says that they are not there.
func (b *budget) spend(n float64, now time.Time) bool {
	if b.level < b.most {
		b.level = min(b.most, b.level+now.Sub(b.since).Seconds()*b.refill)
	}
	b.since = now
	b.level -= n
	return b.level >= 0
}

// earn puts n in.
func (b *budget) earn(n float64) { b.level = min(b.bank, b.level+n) }

// What the budgets of a connection hold.
const (
	// controlBurst are frames that carry nothing: SETTINGS, PING, PRIORITY,
	// WINDOW_UPDATE, empty DATA, unknown ones. A connection's begin has some; later
	// ones come with what is sent: clients of small windows open them for each half
	// KiB, the stream's and the connection's.
	controlBurst = 2000
	controlBank  = 1_000_000 // what was sent may be answered much later, where windows are large
	controlRate  = 200
	controlBytes = 256 // of DATA sent earn one
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
