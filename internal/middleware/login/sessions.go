package login

import (
	"crypto/sha256"
	"log/slog"
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
	// mostFlights bounds refreshes under way and in their grace, mostOpened the sessions
	// that are remembered as they were opened.
	mostFlights = 10_000
	mostOpened  = 10_000
	// mostEnded bounds the log-outs that are remembered.
	mostEnded = 10_000
)

// flight is one refresh of a session, for all requests that come with it meanwhile.
type flight struct {
	over chan struct{} // closed when what follows is known
	held *held         // nil: there is none
	err  error

	until time.Time // it is remembered; zero while it is under way
}

// sessions is what outlives reloads of the sessions of a gate: their refreshes, and what
// opened ones come to.
type sessions struct {
	weak bool // they are encrypted with what is guessed too easily
	log  *slog.Logger
	idle chan struct{} // closed when no refresh is under way, and none will be

	opened *keyed.Table[openedPlace]
	ended  *keyed.Table[endedPlace]

	mu       sync.Mutex
	flights  map[mark]*flight
	finished []finishedFlight // the oldest one first
	running  int
	released bool
}

type finishedFlight struct {
	mark   mark
	flight *flight
}

// openedPlace holds one of the sessions that share a key: the whole mark is in the entry.
type openedPlace struct{ held atomic.Pointer[held] }

func newSessions(s *settings, log *slog.Logger) *sessions {
	return &sessions{
		weak: len(s.secrets[0]) < weakSecret, log: log, idle: make(chan struct{}),
		opened: keyed.NewTable[openedPlace](mostOpened, nil, nil), ended: keyed.NewTable[endedPlace](mostEnded, nil, nil), flights: map[mark]*flight{},
	}
}

// weakSecret is fewer bytes than any secret has that a machine has made.
const weakSecret = 16

// Start warns of a secret that is none. It is for the registry of leases.
func (s *sessions) Start() error {
	if s.weak {
		s.log.Warn("client_secret is short: who has a session can guess it, and make others; give session a secret of its own")
	}
	return nil
}

// Release lets refreshes that are under way end by themselves.
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

// remembered returns what a session comes to that was opened before; nil: it was not.
func (s *sessions) remembered(m mark) *held {
	if p := s.opened.Find(s.opened.Key(string(m[:]))); p != nil {
		if h := p.held.Load(); h != nil && h.mark == m {
			return h
		}
	}
	return nil
}

func (s *sessions) remember(h *held) {
	s.opened.Get(s.opened.Key(string(h.mark[:])), 0).held.Store(h)
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
