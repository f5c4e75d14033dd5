package auth

import (
	"errors"
	"strings"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// errAbsent says that a request has no credential of the kind that is asked for.
var errAbsent = errors.New("there is no credential")

// unauthenticated is 401 with a challenge (RFC 9110 11.6.1). The cause is for the log of
// the process alone: it never has a credential in it, and the client learns none of it.
func unauthenticated(challenge string, cause error) *pipeline.Error {
	err := pipeline.NewError(pipeline.Unauthenticated, cause)
	err.Fields.Put(message.WWWAuthenticate, challenge)
	return err
}

// quoted is a text as a quoted string (RFC 9110 5.6.4).
func quoted(text string) string {
	if strings.ContainsAny(text, `\"`) {
		text = strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`)
	}
	return `"` + text + `"`
}
