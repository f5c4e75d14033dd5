package upstream

import (
	"encoding/json"
	"testing"
	"time"

	"sluice/internal/lease"
)

func TestStateEndsWithItsLastSnapshot(t *testing.T) {
	var registry lease.Registry
	_, first := acquire(t, &registry, of("a=1 b=1"))
	_, second := acquire(t, &registry, of("a=1"))
	first.Release()
	if registry.Idle() == nil {
		t.Error("what the second snapshot has is gone")
	}
	second.Release()
	if err := registry.Idle(); err != nil {
		t.Error(err)
	}
}

func TestStatus(t *testing.T) {
	var registry lease.Registry
	m := of("http://a=3 http://b=1")
	m.Endpoints[1].Version = "v2"
	before, set := acquire(t, &registry, m)
	var turns [3]Turn
	now := time.Now()
	for i := range turns { // a, a, b
		if err := before.Begin(&turns[i], exchange(t), nil, now); err != nil {
			t.Fatal(err)
		}
	}
	turns[0].Failed(now)
	turns[0].End()
	turns[0].End()
	after, _ := acquire(t, &registry, m)
	set.Release()
	text, err := json.Marshal(after.Status(now))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"up","policy":"","panicking":false,"in_flight":0,"repeating":0,"endpoints":[` +
		`{"url":"http://a","weight":3,"available":true,"drained":false,"ejections":0,"active":1,"requests":2,"failures":1},` +
		`{"url":"http://b","weight":1,"version":"v2","available":true,"drained":false,"ejections":0,"active":1,"requests":1,"failures":0}]}`
	if string(text) != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
	if after.Name() != "up" {
		t.Errorf("name %s", after.Name())
	}
	turns[1].End()
	if got := after.Status(now).Endpoints[0].Active; got != 0 {
		t.Errorf("%d active", got)
	}
	empty, _ := acquire(t, new(lease.Registry), of(""))
	if list := empty.Status(now).Endpoints; list == nil || len(list) > 0 {
		t.Errorf("got %v", list)
	}
}
