package ratelimit

import (
	"errors"
	"log/slog"
	"testing"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/redistest"
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
		"return redis.error_reply('ERR max number of clients reached')":                      false,
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
