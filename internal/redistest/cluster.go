package redistest

import (
	"fmt"
	"strings"
	"testing"
)

// slots is how many there are in a cluster.
const slots = 16384

// Cluster is a cluster of servers.
type Cluster struct {
	Masters  []*Server
	Replicas []*Server // of the first masters, one each
}

// StartCluster runs a cluster of so many masters, the first of which have a replica
// each. Where a master is missing the others go on.
func StartCluster(t testing.TB, masters, replicas int) *Cluster {
	t.Helper()
	c := &Cluster{}
	var all []*Server
	for range masters + replicas {
		s := newServer(t)
		s.atFreePort(func() error {
			s.bus = port(FreeAddress(t))
			s.options = []string{"--bind", "127.0.0.1", "--port", port(s.Address), "--cluster-enabled", "yes", "--cluster-port", s.bus, "--cluster-node-timeout", "1000",
				"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"}
			return s.again()
		})
		all = append(all, s)
	}
	c.Masters, c.Replicas = all[:masters], all[masters:]
	for i, s := range c.Masters {
		s.Must("CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
		s.Must("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range all[1:] {
		all[0].Must("CLUSTER", "MEET", "127.0.0.1", port(s.Address), s.bus)
	}
	for _, s := range all {
		Until(t, "all know all", func() bool {
			nodes := fmt.Sprint(s.Must("CLUSTER", "NODES"))
			return strings.Count(nodes, "\n") == len(all) && !strings.Contains(nodes, "handshake")
		})
	}
	for i, s := range c.Replicas {
		s.Must("CLUSTER", "REPLICATE", c.Masters[i].ID())
	}
	for _, s := range all {
		Until(t, "the cluster is well", func() bool {
			info := fmt.Sprint(s.Must("CLUSTER", "INFO"))
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots))
		})
	}
	for _, s := range c.Replicas {
		Until(t, "the replica follows", func() bool {
			return strings.Contains(fmt.Sprint(s.Must("INFO", "replication")), "master_link_status:up")
		})
	}
	return c
}

// Addresses are those of the masters.
func (c *Cluster) Addresses() (addresses []string) {
	for _, s := range c.Masters {
		addresses = append(addresses, s.Address)
	}
	return addresses
}

// ID is the name of a server in its cluster.
func (s *Server) ID() string {
	s.t.Helper()
	return fmt.Sprint(s.Must("CLUSTER", "MYID"))
}

// SlotOf is the slot of a key.
func (s *Server) SlotOf(key string) int64 {
	s.t.Helper()
	slot, ok := s.Must("CLUSTER", "KEYSLOT", key).(int64)
	if !ok {
		s.t.Fatal("a slot is a number")
	}
	return slot
}
