package ratelimit_test

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/ratelimit"
	"sluice/internal/redistest"
)

// documented are the permissions that the documentation asks for.
var documented = strings.Fields("on >secret resetkeys ~sluice:* resetchannels -@all +@hash +@list +@sortedset +@connection +eval +evalsha +del +pexpire +time")

// user makes a user of a database with permissions, and is how to log in.
func (d database) user(words ...string) model.RedisStore {
	d.allow(words...)
	return model.RedisStore{Address: d.Address, Username: "limits", Password: "secret"}
}

// allow changes the permissions of the user.
func (d database) allow(words ...string) {
	all := []any{"ACL", "SETUSER", "limits"}
	for _, w := range words {
		all = append(all, w)
	}
	d.Must(all...)
}

// TestPermissions: those that are documented are enough, for whatever a limit does.
func TestPermissions(t *testing.T) {
	for _, strategy := range ratelimit.Strategies() {
		for _, leased := range []bool{false, true} {
			d := newDatabase(t)
			m := d.user(documented...)
			s := common(strategy.Name, quota(40, time.Hour, 40))
			s.Lease = leased
			log := new(logged)
			l := instance(t, m, s, log)
			v := decided(t, l, "k", 1)
			l.Return(nobody{}, &v)
			drained(t, l, "k", 40)
			for _, key := range d.Must("KEYS", "sluice:limit:*").([]any) { //nolint:forcetypeassert // it is a list
				d.Must("SET", key, "something else")
			}
			redistest.Until(t, "the key begins anew", func() bool { return decided(t, l, "k", 1).Allowed })
			if n := log.refusals() + log.Count("not take back"); n > 0 {
				t.Errorf("%s, leased: %v: %s", strategy.Name, leased, log.String())
			}
		}
	}
}

// TestNoPermission for what decisions need is one outage, for as long as it lasts, though the
// server does all else.
func TestNoPermission(t *testing.T) {
	for strategy, command := range map[string]string{ratelimit.TokenBucket: "hset", ratelimit.SlidingWindow: "rpush"} {
		for _, leased := range []bool{false, true} {
			d := newDatabase(t)
			m := d.user(append(documented, "-"+command)...)
			s := common(strategy, quota(100, time.Hour, 100))
			s.Lease = leased
			log := new(logged)
			l := instance(t, m, s, log)
			redistest.Until(t, "the outage is noticed", func() bool { return !l.Take(nobody{}, "k", "", 1).Allowed && log.Count("cannot be used") > 0 })
			told := beats(d.Server)
			redistest.Until(t, "it was asked three times whether it is back", func() bool {
				l.Take(nobody{}, "k", "", 1)
				return beats(d.Server) >= told+3
			})
			if n := log.Count("cannot be used"); n != 1 || log.Count("can be used again") > 0 {
				t.Errorf("%s, leased: %v: the outage is told %d times: %s", strategy, leased, n, log.String())
			}
			d.allow("+" + command)
			decided(t, l, "k", 1)
			redistest.Until(t, "the end is told", func() bool { return log.Count("can be used again") == 1 })
		}
	}
}

// TestNoReturn: a store that may not take back what is not used is told of, and decides.
func TestNoReturn(t *testing.T) {
	d := newDatabase(t)
	m := d.user(append(documented, "-lrem")...)
	log := new(logged)
	l := instance(t, m, common(ratelimit.SlidingWindow, quota(100, time.Hour, 100)), log)
	back := func() bool {
		v := decided(t, l, "k", 1)
		l.Return(nobody{}, &v)
		return log.Count("does not take back") > 0
	}
	redistest.Until(t, "it is told", back)
	back()
	back()
	if log.Count("does not take back") != 1 || log.refusals() > 0 {
		t.Errorf("it is told: %s", log.String())
	}
}
