package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/redistest"
	"sluice/internal/store"
)

// TestReplies: which are those of a server that is of no use.
func TestReplies(t *testing.T) {
	d := redistest.Start(t)
	d.Must("SET", "text", "x")
	for script, want := range map[string]bool{
		"return redis.call('HGET', 'text', 'x')":              true,
		"return 1 + nil":                                      true,
		"return redis.error_reply('OOM command not allowed')": false,
		"return redis.error_reply('ERR Error running script: @user_script:1: -READONLY x')":  false,
		"return redis.error_reply('ERR Error running script: @user_script:1: WRONGTYPE of')": true,
		"return redis.error_reply('NOAUTH x')":                                               false,
		"return redis.error_reply('LOADING x')":                                              false,
		"return string.match(false, 'x')":                                                    true,
		// As Redis 7 says that the user may not run a command within a script.
		"return redis.error_reply(\"ERR The user executing the script can't run this command or subcommand script: f, on @user_script:25.\")": false,
		"return redis.error_reply('ERR max number of clients reached')":                                                                       false,
	} {
		_, err := d.Do("EVAL", script, 0)
		if got := ofKey(err); err == nil || got != want {
			t.Errorf("%s: %v is about the key: %v", script, err, got)
		}
	}
	if ofKey(errors.New("WRONGTYPE of a connection")) {
		t.Error("what no server has said is about a key")
	}
}

// TestTwoStoresOfOneDatabase count a process once, and the end of one is not that of the
// process.
func TestTwoStoresOfOneDatabase(t *testing.T) {
	d := redistest.Start(t)
	living := func() any { return d.Must("ZCARD", fleetKey) }
	var registry lease.Registry
	begin := func(name string) (*lease.Set, *fleet) {
		set := registry.NewSet()
		f := acquireFleet(set, &model.Store{Name: name, Redis: model.RedisStore{Address: d.Address}}, slog.New(slog.DiscardHandler))
		if err := set.Commit(); err != nil {
			t.Fatal(err)
		}
		redistest.Until(t, "it is known", func() bool { return living() != int64(0) })
		return set, f
	}
	first, one := begin("one")
	d.Must("DEL", fleetKey) // so that it is the other one that is seen
	second, other := begin("other")
	if one.self != other.self {
		t.Error("one process has two names")
	}
	first.Release()
	<-one.done
	if n := living(); n != int64(1) {
		t.Errorf("after the end of one of two stores the process counts as %v", n)
	}
	second.Release()
	<-other.done
	if n := living(); n != int64(0) {
		t.Errorf("after the end of both it counts as %v", n)
	}
}

// TestLiving: how many instances there are is the store's word, but for a time after it has
// lost what it knew.
func TestLiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fleet)
		for i, c := range []struct {
			after time.Duration
			n     int64
			known bool
			want  int64
		}{
			{0, 4, false, 4}, // the first time
			{0, 5, true, 5},
			{0, 3, true, 3}, // two have ended
			{0, 1, false, 3},
			{heartbeat, 2, true, 3},
			{heartbeat, 6, true, 6},
			{heartbeat - 1, 2, true, 6},
			{1, 2, true, 2},
			{0, 0, true, 1},
		} {
			<-time.After(c.after)
			n := f.living(c.n, c.known)
			if f.instances.Store(n); n != c.want {
				t.Errorf("%d: the store tells of %d, known: %v, and %d are taken for alive", i, c.n, c.known, n)
			}
		}
	})
}

// TestPrefix: whatever a limit is called, the part of its keys that is hashed for a cluster is
// that of the key, and a long name is cut.
func TestPrefix(t *testing.T) {
	for _, name := range []string{"", "per-client", "/users/{id} rate_limit 0", "{}", "}{", strings.Repeat("\u00e9", 1000)} {
		prefix := prefixOf("identity", name)
		tag := strings.Index(prefix, "{")
		if tag < 0 || strings.Count(prefix, "{") != 1 || strings.Contains(prefix, "}") || !strings.HasSuffix(prefix, "|") || len(prefix)-tag != 18 || len(prefix) > 200 {
			t.Errorf("of %q it is %q", name, prefix)
		}
	}
}

// TestExcused: which calls without an answer in time say nothing of the server.
func TestExcused(t *testing.T) {
	d := redistest.Start(t)
	late := fmt.Errorf("late: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		first time.Duration // how long before the call the server was to be asked first
		heard time.Duration // when it has answered another one, after the call began
		sent  time.Duration // 0: it was not
		err   error
		want  bool
	}{
		"not sent, and nobody was answered":             {first: time.Minute, heard: -1, err: late, want: false},
		"not sent, others were answered":                {first: time.Minute, heard: 1, err: late, want: true},
		"not sent, the first time":                      {first: time.Second / 2, heard: -1, err: late, want: true},
		"sent soon, others were answered":               {first: time.Minute, heard: 1, sent: decisionTimeout/2 - 1, err: late, want: false},
		"sent late, others were answered":               {first: time.Minute, heard: 1, sent: decisionTimeout / 2, err: late, want: true},
		"sent late, and nobody was answered":            {first: time.Minute, heard: -1, sent: decisionTimeout / 2, err: late, want: false},
		"an answer that serves nobody, and others were": {first: time.Minute, heard: 1, err: errors.New("READONLY"), want: false},
	} {
		f := &fleet{store: store.Acquire(new(lease.Registry).NewSet(), &model.Store{Name: "main", Redis: model.RedisStore{Address: d.Address}})}
		now := time.Now()
		k := f.contact("")
		k.first = now.Add(-c.first)
		k.heard.Store(int64(c.first + c.heard))
		asked := &call{key: "k", began: now}
		asked.sent.Store(int64(c.sent))
		if got := f.excused(t.Context(), asked, c.err); got != c.want {
			t.Errorf("%s: excused: %v", name, got)
		}
	}
}
