package external

import (
	"strings"

	"sluice/internal/message"
)

// A service behind the very gateway that asks it, on a route that asks it in turn, would be
// asked about each question. Via (RFC 9110 7.6.3) tells how often that has happened.
const (
	pseudonym = "sluice-external-auth"
	mostAsked = 10
)

// looped tells whether a request is a question about a question about … too often.
func looped(fields message.Fields) bool {
	asked := 0
	for member := range fields.List(message.Via) {
		if _, name, _ := strings.Cut(member, " "); strings.TrimSpace(name) == pseudonym {
			asked++
		}
	}
	return asked > mostAsked
}

// viaOf is the Via of a question about a request.
func viaOf(fields message.Fields) string {
	const own = "1.1 " + pseudonym
	if via, there := fields.Joined(", ", func(name string) bool { return message.Lookup(name) == message.Via }); there {
		return via + ", " + own
	}
	return own
}
