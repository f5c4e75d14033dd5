package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Watched is a master with a replica, and the sentinels that watch them.
type Watched struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// MasterName is how sentinels call the master.
const MasterName = "main"

// StartWatched runs a master and its replica, and three sentinels, two of which must
// agree that the master is gone: they notice after half a second. Options are those of
// the servers, settings lines of the sentinels' configuration.
func StartWatched(t testing.TB, options []string, settings ...string) *Watched {
	t.Helper()
	w := &Watched{}
	options = append([]string{"--repl-diskless-sync-delay", "0"}, options...)
	w.Master = StartTCP(t, options...)
	w.Replica = StartTCP(t, append(options, "--replicaof", "127.0.0.1 "+port(w.Master.Address))...)
	for range 3 {
		w.Sentinels = append(w.Sentinels, StartSentinel(t, w.Master.Address, settings...))
	}
	for _, s := range w.Sentinels {
		Until(t, "the sentinels know each other and the replica", func() bool {
			told := fmt.Sprint(s.Must("SENTINEL", "MASTER", MasterName))
			return strings.Contains(told, "num-other-sentinels 2") && strings.Contains(told, "num-slaves 1") && strings.Contains(told, "flags master ")
		})
		Until(t, "the replica is fit", func() bool {
			return strings.Contains(fmt.Sprint(s.Must("SENTINEL", "REPLICAS", MasterName)), "master-link-status ok")
		})
	}
	return w
}

// StartSentinel runs a sentinel that watches the master at an address. Settings are
// lines of its configuration.
func StartSentinel(t testing.TB, master string, settings ...string) *Server {
	t.Helper()
	s := newServer(t)
	file := filepath.Join(s.Dir, "sentinel.conf")
	s.atFreePort(func() error {
		lines := append([]string{
			"bind 127.0.0.1", "port " + port(s.Address), "dir " + s.Dir, "logfile log",
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2", MasterName, port(master)),
			"sentinel down-after-milliseconds " + MasterName + " 500",
			"sentinel failover-timeout " + MasterName + " 5000",
		}, settings...)
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return s.run(file, "--sentinel")
	})
	return s
}

// Addresses are those of the sentinels.
func (w *Watched) Addresses() (addresses []string) {
	for _, s := range w.Sentinels {
		addresses = append(addresses, s.Address)
	}
	return addresses
}
