package store

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// ages are when connections to servers have to be made at least to be used again.
type ages struct{ since sync.Map } // of time.Time, by address; empty: of all servers

// Distrust has no connection at rest used again that was made to a server, by Shard, before a
// time: the way that it takes may be gone, though nothing says so, while a new one would find
// another. What is under way goes on.
func (s *Store) Distrust(server string, before time.Time) { s.ages.since.Store(server, before) }

// agedConn is a connection that the client does not use again once it is distrusted: before
// it does, it asks for the socket, to look whether that is still there.
type agedConn struct {
	net.Conn
	ages    *ages
	address string
	made    time.Time
}

// SyscallConn fails for a connection that is of no use any more.
func (c agedConn) SyscallConn() (syscall.RawConn, error) {
	for _, server := range [...]string{"", c.address} {
		if since, ok := c.ages.since.Load(server); ok && c.made.Before(since.(time.Time)) { //nolint:forcetypeassert // there is nothing else
			return nil, errGone
		}
	}
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		panic("BUG: a connection without a socket")
	}
	return socket.SyscallConn()
}
