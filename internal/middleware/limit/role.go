package limit

import (
	"slices"

	"sluice/internal/model"
)

// roleOf is that of a limit in a chain by what it counts by, and whether it goes by who
// the client is otherwise.
func roleOf(keys []model.Key, otherwise bool) model.Role {
	if otherwise || slices.ContainsFunc(keys, asksWho) {
		return model.Telling
	}
	return model.Plain
}

// asksWho tells whether a key is known only of who has been authenticated.
func asksWho(key model.Key) bool {
	return key.Source == model.KeyConsumer || key.Source == model.KeyClaim
}

// role is Telling where a limit counts by who the client is, or has tiers by it.
func (l rateLimit) role() model.Role {
	return roleOf(l.Keys, len(l.Tiers) > 0 && (l.TierBy == nil || asksWho(*l.TierBy)))
}

func (l concurrencyLimit) role() model.Role { return roleOf(l.Keys, false) }
