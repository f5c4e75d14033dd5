package proxy

import (
	"slices"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// run tries endpoints until one has answered, as often as the route lets it.
func (f *forward) run(now time.Time) error {
	returned := false
	defer func() {
		if !returned { // a body or the client's informer has panicked
			f.kept.settle(true)
			f.end()
		}
	}()
	err := f.attempts(now)
	returned = true
	return err
}

func (f *forward) attempts(now time.Time) error {
	for moves := 0; ; {
		begun, err := f.bounded(now)
		now = time.Now()
		if !begun {
			if moves++; moves > len(f.sides) || !f.move(err, now) {
				return f.fail(err)
			}
			continue
		}
		pause, again := f.again(err, now)
		switch {
		case !again && err != nil:
			return f.fail(err)
		case !again:
			return f.accept(now)
		case err == nil:
			_ = f.try.Response.Close() // what it says is not wanted any more
			f.turn.End()
		}
		if err := f.pause(pause); err != nil {
			return f.fail(err)
		}
		now = time.Now()
	}
}

// bounded is an attempt within the time of one.
func (f *forward) bounded(now time.Time) (begun bool, err error) {
	r := f.route.Retry
	if r == nil {
		return f.attempt(now)
	}
	f.watch.Try(now, r.PerTry)
	begun, err = f.attempt(now)
	f.watch.Tried()
	return begun, err
}

// move goes on with another side of the split after an error that tells why there
// is no endpoint to try, and tells whether there is one.
func (f *forward) move(err error, now time.Time) bool {
	switch pipeline.AsError(err).Word {
	case pipeline.NoEndpoint, pipeline.CircuitOpen:
	default:
		return false // the client has left
	}
	s := f.other(now)
	if s == nil || !f.welcome(s) {
		return false
	}
	if f.repeats != nil {
		f.giveBack()
		if !f.reserve(s) {
			return false
		}
	}
	f.take(s)
	return true
}

// again tells whether what came of an attempt, a response or an error, is followed
// by another one, and after which pause. That one then has a side, a place in the
// budget, and the body from its beginning.
func (f *forward) again(err error, now time.Time) (pause time.Duration, again bool) {
	f.giveBack()
	r := f.route.Retry
	if r == nil || f.x.Attempts >= r.Attempts || !f.matches(r, err) || f.x.Context().Err() != nil || f.watch.Expired() != nil {
		return 0, false
	}
	if !unsent(err) && !f.repeatable(r) {
		return 0, false
	}
	f.tried = append(f.tried, f.turn.Endpoint)
	next := f.side
	if s := f.other(now); s != nil {
		next = s
	}
	fresh := next.Group.Available(f.tried, now)
	if !fresh && !next.Group.Available(nil, now) {
		return 0, false // its circuit breaker has opened: what there is goes to the client
	}
	pause, inTime := f.delay(err, fresh, now)
	if !inTime || !f.reserve(next) {
		return 0, false
	}
	// The limit of another side is asked last: what it lets through is counted.
	if next != f.side && !f.welcome(next) || !f.kept.rewind() {
		f.giveBack()
		return 0, false
	}
	if next != f.side {
		f.take(next)
	}
	return pause, true
}

// reserve takes a place for a repetition in the budget of a side, and tells whether
// there was one.
func (f *forward) reserve(s *side) bool {
	budget := s.Group.Budget()
	if !budget.Take(f.route.Retry.Budget) {
		if s.Exhausted != nil {
			s.Exhausted()
		}
		return false
	}
	f.repeats = budget
	return true
}

// giveBack gives back the place in the budget.
func (f *forward) giveBack() {
	if f.repeats != nil {
		f.repeats.Give()
		f.repeats = nil
	}
}

// matches tells whether the route wants another attempt after what came of one.
func (f *forward) matches(r *model.Retry, err error) bool {
	if err == nil {
		_, listed := slices.BinarySearch(r.On.Status, f.status())
		return listed && f.try.Response.Tunnel == nil
	}
	e := pipeline.AsError(err)
	if e.Fault == pipeline.Client {
		return false
	}
	if _, listed := slices.BinarySearch(r.On.Status, e.Status); listed {
		return true
	}
	switch e.Word {
	case pipeline.UpstreamConnect:
		return r.On.ConnectFailure || r.On.Refused && e.Unsent
	case pipeline.UpstreamReset:
		return r.On.Reset || r.On.Refused && e.Unsent
	case pipeline.UpstreamTimeout:
		return r.On.Timeout || r.PerTry > 0
	default:
		return false
	}
}

// repeatable tells whether the endpoint may see the request twice.
func (f *forward) repeatable(r *model.Retry) bool {
	return slices.Contains(r.Methods, f.x.Request.Method) || f.x.Request.Fields.Get(message.IdempotencyKey) != ""
}

// unsent tells whether the endpoint cannot have seen the request.
func unsent(err error) bool { return err != nil && pipeline.AsError(err).Unsent }
