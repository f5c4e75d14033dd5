package server

import (
	"sync/atomic"
	"time"
)

// member is a connection on a listener's books. Its methods are for any
// goroutine.
type member interface {
	stands() *standing
	// retire tells the client, where the protocol can, that no other request is
	// taken. Those under way go on.
	retire()
	// closeIdle closes the connection, unless something has arrived on it.
	closeIdle()
	// hasten leaves a parting connection a moment, for its client to read the
	// answer: a gateway that ends does not wait for it.
	hasten()
	// interrupt ends the exchange under way, if there is one.
	interrupt(cause error)
	// kill closes the connection under its owner; with reset, so that a response
	// that ends with the connection does not look whole.
	kill(reset bool)
}

// standing is what a listener knows of a connection. Its owner keeps it
// current.
type standing struct {
	name  string // of the listener when the connection was taken
	since time.Time

	busy    atomic.Bool // something of a request has come and its exchange is not over
	active  atomic.Bool // an exchange is under way
	served  atomic.Bool // an exchange is over
	parting atomic.Bool // the last response is out; only the client's end is waited for
	tunnel  atomic.Bool // no longer HTTP

	verified atomic.Bool // its client has shown a certificate that is good
}

func (s *standing) stands() *standing { return s }
