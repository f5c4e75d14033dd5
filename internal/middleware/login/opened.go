package login

import (
	"log/slog"
	"sync/atomic"

	"sluice/internal/keyed"
)

// mostOpened bounds the sessions that are remembered as they were opened.
const mostOpened = 10_000

// opened is what sessions come to that were read with the same secrets, for the same ends.
// It outlives reloads that change neither.
type opened struct {
	weak  bool // they are encrypted with what is guessed too easily
	log   *slog.Logger
	table *keyed.Table[openedPlace]
}

// openedPlace holds one of the sessions that share a key: the whole mark is in the entry.
type openedPlace struct{ held atomic.Pointer[held] }

func newOpened(s *settings, log *slog.Logger) *opened {
	return &opened{len(s.secrets[0]) < weakSecret, log, keyed.NewTable[openedPlace](mostOpened, nil, nil)}
}

// weakSecret is fewer bytes than any secret has that a machine has made.
const weakSecret = 16

// Start warns of a secret that is none. It is for the registry of leases.
func (o *opened) Start() error {
	if o.weak {
		o.log.Warn("client_secret is short: who has a session can guess it, and make others; give session a secret of its own")
	}
	return nil
}

// Release is for the registry of leases: nothing is left to end.
func (o *opened) Release() {}

// find returns what a session comes to that was opened before; nil: it was not.
func (o *opened) find(m mark) *held {
	if p := o.table.Find(o.table.Key(string(m[:]))); p != nil {
		if h := p.held.Load(); h != nil && h.mark == m {
			return h
		}
	}
	return nil
}

func (o *opened) remember(h *held) {
	o.table.Get(o.table.Key(string(h.mark[:])), 0).held.Store(h)
}
