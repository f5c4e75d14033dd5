package proxy

import (
	"math"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/upstream"
)

// many is over how many exchanges shares are counted.
const many = 100_000

// share is one side of a split, as a test has it.
type share struct {
	version           string
	weight, endpoints int
}

// split is a destination that chooses, and forwards nothing.
func split(t *testing.T, m model.Split, shares ...share) *destination {
	t.Helper()
	set := new(lease.Registry).NewSet()
	t.Cleanup(set.Release)
	nowhere := upstream.Connect{Transport: func(*lease.Set, *model.Upstream, model.Endpoint) pipeline.Transport { return nil }}
	var sides []Side
	for _, one := range shares {
		up := &model.Upstream{Name: "shop-" + one.version, Balancer: model.Balancer{Policy: model.ConsistentHash, HashOn: byUser}}
		for i := range one.endpoints {
			up.Endpoints = append(up.Endpoints, model.Endpoint{URL: one.version + "-" + strconv.Itoa(i), Weight: 1})
		}
		sides = append(sides, Side{Group: upstream.Acquire(set, up, nowhere, nil), Version: one.version, Weight: one.weight})
		m.Sides = append(m.Sides, model.Side{Upstream: up, Version: one.version, Weight: one.weight})
	}
	return New(&model.Route{Split: &m}, sides, Gateway{}).(*destination) //nolint:forcetypeassert // it is what New makes
}

// byUser keeps a user on one side.
var byUser = &model.Key{Source: model.KeyHeader, Name: "X-User-Id"}

// of is an exchange of a user; negative: of nobody.
func of(t *testing.T, user int) *pipeline.Exchange {
	t.Helper()
	request := &message.Request{}
	if user >= 0 {
		request.Fields.Add("X-User-Id", "user-"+strconv.Itoa(user))
	}
	return pipeline.NewExchange(t.Context(), request, &model.Listener{}, netip.AddrPort{}, time.Time{})
}

// users is where each of many users goes.
func users(t *testing.T, d *destination) []string {
	t.Helper()
	list := make([]string, many)
	now := time.Now()
	for i := range list {
		s, _ := d.side(of(t, i), now)
		list[i] = s.Version
	}
	return list
}

func count(list []string, version string) (n int) {
	for _, one := range list {
		if one == version {
			n++
		}
	}
	return n
}

// near checks a share in percent to half a point.
func near(t *testing.T, what string, n int, want float64) {
	t.Helper()
	if got := 100 * float64(n) / many; math.Abs(got-want) > 0.5 {
		t.Errorf("%s: %.2f%%, want %v%%", what, got, want)
	}
}

// TestSharesAtRandom has them right, also of those who have no identity.
func TestSharesAtRandom(t *testing.T) {
	for _, sticky := range []*model.Key{nil, byUser} {
		d := split(t, model.Split{Sticky: sticky}, share{"v1", 95, 1}, share{"v2", 5, 1})
		second, now := 0, time.Now()
		for range many {
			if s, _ := d.side(of(t, -1), now); s.Version == "v2" {
				second++
			}
		}
		near(t, "v2", second, 5)
	}
}

// TestSharesOfUsers has them right, moves nobody back while one is raised, and
// spreads the users of a side evenly over its endpoints, although these are chosen
// by the same key.
func TestSharesOfUsers(t *testing.T) {
	var before []string
	for _, percent := range []int{5, 20, 50, 100} {
		d := split(t, model.Split{Sticky: byUser}, share{"v1", 100 - percent, 1}, share{"v2", percent, 4})
		now := users(t, d)
		near(t, "v2", count(now, "v2"), float64(percent))
		for i, was := range before {
			if was == "v2" && now[i] != "v2" {
				t.Fatalf("at %d%% user %d went back to %s", percent, i, now[i])
			}
		}
		for i := range many {
			if now[i] != "v2" {
				continue
			}
			var turn upstream.Turn
			if err := d.sides[1].Group.Begin(&turn, of(t, i), nil, time.Time{}); err != nil {
				t.Fatal(err)
			}
			turn.End()
		}
		for _, e := range d.sides[1].Group.Status(time.Time{}).Endpoints {
			if got, want := float64(e.Requests), float64(count(now, "v2"))/4; math.Abs(got-want) > 6*math.Sqrt(want) {
				t.Errorf("at %d%% %s has %v of %v users", percent, e.URL, got, want)
			}
		}
		before = now
	}
}

// TestUsersStayWhereTheyCan moves those alone that a side that comes, goes, or
// changes its share gets or loses.
func TestUsersStayWhereTheyCan(t *testing.T) {
	shares := []share{{"v1", 60, 1}, {"v2", 30, 1}, {"v3", 10, 1}}
	three := users(t, split(t, model.Split{Sticky: byUser}, shares...))
	for name, c := range map[string]struct {
		to      []share
		changed string
	}{
		"v3 goes":           {shares[:2], "v3"},
		"v1 goes":           {shares[1:], "v1"},
		"v2 gains":          {[]share{shares[0], {"v2", 60, 1}, shares[2]}, "v2"},
		"v2 loses":          {[]share{shares[0], {"v2", 5, 1}, shares[2]}, "v2"},
		"v4 comes":          {[]share{shares[0], shares[1], shares[2], {"v4", 50, 1}}, "v4"},
		"the order changes": {[]share{shares[2], shares[0], shares[1]}, "nobody"},
		"all are doubled":   {[]share{{"v1", 120, 1}, {"v2", 60, 1}, {"v3", 20, 1}}, "nobody"},
		"v2 is unavailable": {[]share{shares[0], {"v2", 30, 0}, shares[2]}, "v2"},
	} {
		now := users(t, split(t, model.Split{Sticky: byUser, Failover: true}, c.to...))
		for i := range now {
			if now[i] != three[i] && now[i] != c.changed && three[i] != c.changed {
				t.Errorf("%s: user %d goes from %s to %s", name, i, three[i], now[i])
				break
			}
		}
		total := 0
		for _, one := range c.to {
			total += one.weight * one.endpoints
		}
		for _, one := range c.to {
			near(t, name+", "+one.version, count(now, one.version), 100*float64(one.weight*one.endpoints)/float64(total))
		}
	}
}
