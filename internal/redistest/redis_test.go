package redistest_test

import (
	"testing"

	"sluice/internal/redistest"
)

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, 1)
	if c.Masters[0].ID() == c.Masters[1].ID() {
		t.Error("two are one")
	}
}

func TestWatched(t *testing.T) {
	w := redistest.StartWatched(t, nil)
	t.Log(w.Addresses())
}
