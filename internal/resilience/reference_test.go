package resilience

import "time"

// reference is a breaker that remembers everything and works out each decision from
// the beginning, with whole numbers.
type reference struct {
	s    BreakerSettings
	told []Transition

	epoch     int
	state     State
	since     time.Time
	probing   int
	successes int

	anchor   time.Time // of the window's buckets
	bucket   int       // the latest that was told of
	results  []result  // of requests, since it closed
	failures int       // in a row, since it closed
}

// result is what became of a request, or a failure that came late.
type result struct {
	bucket             int
	late, failed, slow bool
}

// ticket is the reference's permit.
type ticket struct {
	epoch int
	state State
}

func (r *reference) allow(now time.Time) (t ticket, wait time.Duration, ok bool) {
	if r.state == Open {
		if probe := r.since.Add(r.s.OpenFor); now.Before(probe) {
			return t, probe.Sub(now), false
		}
		r.enter(HalfOpen, now)
	}
	if r.state == HalfOpen {
		if r.probing == r.s.MaxConcurrent {
			return t, whenFull, false
		}
		r.probing++
	}
	return ticket{r.epoch, r.state}, 0, true
}

func (r *reference) ready(now time.Time) bool {
	switch r.state {
	case Open:
		return now.Sub(r.since) >= r.s.OpenFor
	case HalfOpen:
		return r.probing != r.s.MaxConcurrent
	default:
		return true
	}
}

func (r *reference) done(t ticket, now time.Time, failed bool, took time.Duration) {
	if t.epoch != r.epoch {
		return
	}
	slow := r.s.SlowRate != 0 && took > r.s.SlowAfter
	if t.state == HalfOpen {
		r.probing--
		if failed || slow {
			r.enter(Open, now)
		} else if r.successes++; r.successes == r.s.Successes {
			r.enter(Closed, now)
		}
		return
	}
	if failed {
		r.failures++
	} else {
		r.failures = 0
	}
	r.record(now, result{failed: failed, slow: slow})
}

func (r *reference) late(t ticket, now time.Time) {
	switch {
	case t.epoch != r.epoch:
	case t.state == HalfOpen:
		r.enter(Open, now)
	default:
		r.failures++
		r.record(now, result{late: true, failed: true})
	}
}

func (r *reference) drop(t ticket) {
	if t.epoch == r.epoch && t.state == HalfOpen {
		r.probing--
	}
}

func (r *reference) record(now time.Time, n result) {
	r.touch(now)
	n.bucket = r.bucket
	r.results = append(r.results, n)
	seen := r.seen(now)
	enough := seen.Requests >= r.s.MinRequests
	percent := func(part int) int { return part * 100 / seen.Requests }
	switch {
	case r.s.Consecutive != 0 && r.failures >= r.s.Consecutive,
		enough && r.s.ErrorRate != 0 && percent(seen.Failures) >= int(r.s.ErrorRate*100+0.5),
		enough && r.s.SlowRate != 0 && percent(seen.Slow) >= int(r.s.SlowRate*100+0.5):
		r.enter(Open, now)
	}
}

// touch finds the bucket that now belongs to.
func (r *reference) touch(now time.Time) {
	if r.anchor.IsZero() {
		r.anchor, r.bucket = now, 0
	}
	r.bucket = max(r.bucket, int(now.Sub(r.anchor)/(r.s.Window/10)))
}

func (r *reference) seen(now time.Time) (t Tally) {
	r.touch(now)
	for _, n := range r.results {
		if n.bucket <= r.bucket-10 {
			continue
		}
		if !n.late {
			t.Requests++
		}
		if n.failed {
			t.Failures++
		}
		if n.slow {
			t.Slow++
		}
	}
	t.Requests = max(t.Requests, t.Failures)
	return t
}

func (r *reference) enter(to State, now time.Time) {
	r.told = append(r.told, Transition{From: r.state, To: to, At: now})
	r.epoch++
	r.state, r.since = to, now
	r.probing, r.successes = 0, 0
	if to == Closed {
		r.anchor, r.results, r.failures = time.Time{}, nil, 0
	}
}

func (r *reference) status(now time.Time) BreakerStatus {
	seen := r.seen(now)
	s := BreakerStatus{
		State: r.state, Since: r.since, Requests: seen.Requests, Failures: seen.Failures, Slow: seen.Slow,
		Consecutive: r.failures, Probing: r.probing, Successes: r.successes,
	}
	if r.state == Open {
		s.ProbeAt = r.since.Add(r.s.OpenFor)
	}
	return s
}
