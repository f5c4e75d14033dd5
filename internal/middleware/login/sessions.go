package login

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/keyed"
)

// mark tells states of sessions apart: one that was refreshed has another.
type mark [sha256.Size]byte

func markOf(text, sealed string) mark {
	if sealed != text {
		text += "\n" + sealed // it is bound to the text, and is that of no other
	}
	return sha256.Sum256([]byte(text))
}

const (
	// flightTime bounds a refresh.
	flightTime = 12 * time.Second
	// grace is for how long a client may come with a session of before its refresh, and
	// gets that of after: it may have asked for several things at once, and an answer may
	// have got lost.
	grace = 30 * time.Second
	// respite is how long after a refresh that has failed the next one is tried.
	respite = 2 * time.Second
	// mostFlights bounds refreshes under way and in their grace, mostReplaced those that it
	// is remembered of that they were.
	mostFlights  = 10_000
	mostReplaced = 10_000
	// mostEnded bounds the log-outs that are remembered.
	mostEnded = 10_000
	// mostErrands bounds what goes on beside requests.
	mostErrands = 256
)

// flight is one refresh of a session, for all requests that come with it meanwhile.
type flight struct {
	over chan struct{} // closed when what follows is known
	held *held         // as the gate has it that has begun this; nil: there is none
	err  error

	until time.Time // it is remembered; zero while it is under way
}

// sessions is what is known here of the sessions of one client of an issuer under one name
// of a cookie: their refreshes, and which have ended. All gates that take these sessions
// share it, whatever they tell of people, and it outlives reloads that change that: a
// refresh token is good for one refresh, and who has logged out has done so everywhere.
type sessions struct {
	idle chan struct{} // closed when neither a refresh nor an errand is under way, and none will be

	// What goes wrong by no fault of those who ask, and may with each request.
	loginless, stale, stays, unrevoked notice

	ended    *keyed.Table[endedPlace]
	replaced *keyed.Table[replacedPlace]

	mu       sync.Mutex
	flights  map[mark]*flight
	finished []finishedFlight // the oldest one first
	running  int              // refreshes and errands
	errands  int
	released bool
}

type finishedFlight struct {
	mark   mark
	flight *flight
}

func newSessions() *sessions {
	return &sessions{
		idle: make(chan struct{}), ended: keyed.NewTable[endedPlace](mostEnded, nil, nil),
		replaced: keyed.NewTable[replacedPlace](mostReplaced, nil, nil), flights: map[mark]*flight{},
	}
}

// Start is for the registry of leases: nothing is to be started.
func (s *sessions) Start() error { return nil }

// Release lets refreshes and errands that are under way end by themselves.
func (s *sessions) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	s.rest()
}

func (s *sessions) rest() {
	if s.released && s.running == 0 {
		close(s.idle)
	}
}

// endedPlace holds one of the log-ins that share a key.
type endedPlace struct{ login atomic.Pointer[string] }

// leave says that somebody has logged out. An answer that was begun before may come after
// that of the log-out, and give a session back that is in cookies.
func (s *sessions) leave(login string) {
	if login != "" {
		s.ended.Get(s.ended.Key(login), 0).login.Store(&login)
	}
}

// leftBy tells whether somebody has logged out of a log-in, here and lately.
func (s *sessions) leftBy(login string) bool {
	if login == "" {
		return false
	}
	p := s.ended.Find(s.ended.Key(login))
	if p == nil {
		return false
	}
	was := p.login.Load()
	return was != nil && *was == login
}

// replacedPlace holds one of the sessions that share a key.
type replacedPlace struct{ mark atomic.Pointer[mark] }

// isReplaced tells whether a session was refreshed here, maybe long ago.
func (s *sessions) isReplaced(m mark) bool {
	p := s.replaced.Find(s.replaced.Key(string(m[:])))
	if p == nil {
		return false
	}
	was := p.mark.Load()
	return was != nil && *was == m
}

// join returns the refresh of a session, and begins it if nobody has; nil: there are too
// many.
func (s *sessions) join(m mark, now func() time.Time, refresh func() (*held, error)) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now())
	if f := s.flights[m]; f != nil && (f.until.IsZero() || now().Before(f.until)) {
		return f
	}
	if s.released || len(s.flights) >= mostFlights {
		return nil
	}
	f := &flight{over: make(chan struct{})}
	s.flights[m] = f
	s.running++
	go func() {
		held, err := refresh()
		s.mu.Lock()
		defer s.mu.Unlock()
		f.held, f.err = held, err
		if held != nil {
			s.replaced.Get(s.replaced.Key(string(m[:])), 0).mark.Store(&m)
		}
		if f.until = now().Add(grace); ended(err) == nil && err != nil {
			f.until = now().Add(respite)
		}
		s.finished = append(s.finished, finishedFlight{m, f})
		close(f.over)
		s.running--
		s.rest()
	}()
	return f
}

// aside runs what no request waits for. False: there is too much of that already, or it is
// too late.
func (s *sessions) aside(errand func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released || s.errands >= mostErrands {
		return false
	}
	s.errands++
	s.running++
	go func() {
		errand()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errands--
		s.running--
		s.rest()
	}()
	return true
}

// newest is what a session has come to by refreshes that are known of here. It waits for
// one that is under way, until ctx ends.
func (s *sessions) newest(ctx context.Context, h *held) *held {
	for range mostRefreshes {
		s.mu.Lock()
		f := s.flights[h.mark]
		s.mu.Unlock()
		if f == nil || !isOver(ctx, f.over) || f.held == nil || f.held == h {
			break
		}
		h = f.held
	}
	return h
}

// forget drops refreshes that need not be remembered any more, and the oldest ones where
// there are too many.
func (s *sessions) forget(now time.Time) {
	for len(s.finished) > 0 {
		first := s.finished[0]
		if now.Before(first.flight.until) && len(s.flights) < mostFlights {
			return
		}
		if s.flights[first.mark] == first.flight {
			delete(s.flights, first.mark)
		}
		s.finished[0] = finishedFlight{}
		s.finished = s.finished[1:]
	}
}
