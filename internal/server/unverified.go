package server

import (
	"errors"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// A reload may ask for certificates of clients where it did not before. Nobody
// can be asked again on a connection that is made: those without one end.

// unverified tells whether settings require what a client has not shown.
func unverified(m *model.Listener, shown *message.ClientCertificate) bool {
	return requiring(m) && shown == nil
}

func requiring(m *model.Listener) bool {
	return m.TLS != nil && m.TLS.ClientAuth.Mode == model.ClientAuthRequire
}

// refuseUnverified is what such a client is told whose request was under way.
func refuseUnverified() *pipeline.Error {
	refusal := pipeline.NewError(pipeline.Forbidden, errors.New("the connection is older than client_auth: require"))
	refusal.Detail = "A client certificate is required: connect again."
	refusal.Close = true
	return refusal
}

// turnOut ends the connections without a certificate, where the settings require
// one: those that rest at once, of HTTP/1.1 the others at their next request. One
// that has said nothing yet will be asked. l.mu is held.
func (l *Listener) turnOut(m *model.Listener) {
	if !requiring(m) {
		return
	}
	for c := range l.conns {
		of := c.stands()
		if of.verified.Load() {
			continue
		}
		c.retire()
		if of.served.Load() && !of.busy.Load() {
			c.closeIdle()
		}
	}
}
