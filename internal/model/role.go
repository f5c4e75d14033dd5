package model

// Role is what a middleware means for others of its chain: a set of what follows.
type Role int

// What a middleware may mean.
const (
	// Outermost ones go before all others, wherever they are written: what they answer
	// is nothing that those may refuse, and what those refuse passes back by them.
	Outermost Role = 1 << iota
	// Refusing ones are there to keep requests from whatever may answer them.
	Refusing
	// Identifying ones tell who the client is.
	Identifying
	// Certifying ones go by the certificate that a listener has asked for.
	Certifying
	// Identified ones refuse everybody of whom nobody before them has told who it is.
	Identified
	// Telling ones refuse nobody for it, but count or tell by who the client is: before
	// an identifying one they would do so by nothing.
	Telling
	// Answering ones may answer in the place of the destination.
	Answering
)

// The usual roles.
const (
	// Plain ones may stand anywhere.
	Plain Role = 0
	// Authenticating ones tell who the client is, or refuse it.
	Authenticating = Refusing | Identifying
	// Authorizing ones refuse by what an authenticating one before them has told.
	Authorizing = Refusing | Identified
)

// Is tells whether a role has all of another.
func (r Role) Is(other Role) bool { return r&other == other }
