package login

import (
	"log/slog"
	"sync/atomic"

	"sluice/internal/keyed"
)

const (
	// mostOpened bounds the sessions that are remembered as they were opened: those of an
	// ordinary size, up to light bytes as they are kept. Of larger ones, which may be twenty
	// times as large, there are heavyShare times fewer.
	mostOpened = 10_000
	light      = 4 << 10
	heavyShare = 16
)

// opened is what sessions come to that were read with the same secrets, for the same ends.
// It outlives reloads that change neither.
type opened struct {
	weak  bool // they are encrypted with what is guessed too easily
	log   *slog.Logger
	light *keyed.Table[openedPlace]
	heavy *keyed.Table[openedPlace]
}

// openedPlace holds one of the sessions that share a key: the whole mark is in the entry.
type openedPlace struct{ held atomic.Pointer[held] }

func newOpened(s *settings, log *slog.Logger) *opened {
	return &opened{
		len(s.secrets[0]) < weakSecret, log,
		keyed.NewTable[openedPlace](mostOpened, nil, nil), keyed.NewTable[openedPlace](mostOpened/heavyShare, nil, nil),
	}
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

// of is the table that has sessions of a size.
func (o *opened) of(sealed string) *keyed.Table[openedPlace] {
	if len(sealed) > light {
		return o.heavy
	}
	return o.light
}

// find returns what a session comes to that was opened before; nil: it was not.
func (o *opened) find(m mark, sealed string) *held {
	table := o.of(sealed)
	if p := table.Find(table.Key(string(m[:]))); p != nil {
		if h := p.held.Load(); h != nil && h.mark == m {
			return h
		}
	}
	return nil
}

func (o *opened) remember(h *held) {
	table := o.of(h.sealed)
	table.Get(table.Key(string(h.mark[:])), 0).held.Store(h)
}
