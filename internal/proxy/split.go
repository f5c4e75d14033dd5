package proxy

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"

	"sluice/internal/pipeline"
	"sluice/internal/upstream"
)

// side is a Side with its seed. Routes that share out the same upstreams agree
// on who goes where.
type side struct {
	*Side
	seed uint64
}

func newSide(s *Side) *side {
	return &side{s, xxhash.Sum64String("side\n" + s.Group.Name() + "\n" + s.Version)}
}

// admitted asks whether the exchange may come to a side, once.
func (f *forward) admitted(s *side) error {
	if f.asked == s {
		return nil
	}
	if s.Admit != nil {
		if err := s.Admit(f.x); err != nil {
			return err
		}
	}
	f.asked = s
	return nil
}

// welcome tells whether the exchange may go on at another side. How it stands with a
// limit that refuses that is not for the client: it gets what there is.
func (f *forward) welcome(s *side) bool {
	stood := f.x.Standing
	if f.admitted(s) != nil {
		f.x.Standing = stood
		return false
	}
	return true
}

// side chooses the upstream of an exchange: the version that the client asks for;
// else by who it is, so that it stays, by weighted rendezvous hashing; else at
// random (SPEC 3).
func (d *destination) side(x *pipeline.Exchange, now time.Time) (chosen *side, forced bool) {
	split := d.route.Split
	if split == nil {
		return d.sides[0], false
	}
	if wanted, there := x.Request.Fields.Find(split.ForceHeader); there && wanted != "" {
		for _, s := range d.sides {
			if s.Version == wanted {
				return s, true
			}
		}
	}
	fit := func(*side) bool { return true }
	if split.Failover {
		fit = func(s *side) bool { return s.Group.Available(nil, now) }
	}
	if chosen = d.share(x, fit); chosen == nil { // none is available: it is told of one
		chosen = d.share(x, func(*side) bool { return true })
	}
	return chosen, false
}

// other is a side for an exchange that has tried all of those where it was; nil:
// there is none.
func (f *forward) other(now time.Time) *side {
	split := f.route.Split
	if split == nil || !split.Failover || f.forced || f.side.Group.Available(f.tried, now) {
		return nil
	}
	return f.share(f.x, func(s *side) bool { return s != f.side && s.Group.Available(f.tried, now) })
}

// share is the side that has an exchange by its share among those that are fit;
// nil: none is.
func (d *destination) share(x *pipeline.Exchange, fit func(*side) bool) *side {
	key := rand.Uint64() //nolint:gosec // nothing secret hangs on it
	if sticky := d.route.Split.Sticky; sticky != nil {
		if identity, there := pipeline.KeyOf(x, sticky); there {
			key = xxhash.Sum64String(identity)
		}
	}
	var best *side
	highest := math.Inf(-1)
	for _, s := range d.sides {
		if s.Weight == 0 || !fit(s) {
			continue
		}
		if score := upstream.Score(key, s.seed, s.Weight); score > highest {
			best, highest = s, score
		}
	}
	return best
}
