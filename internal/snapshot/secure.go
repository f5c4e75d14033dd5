package snapshot

import (
	"strings"

	"sluice/internal/acme"
	"sluice/internal/certificate"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/store"
)

// secure acquires what the listeners show to clients over TLS.
func (b *Builder) secure(s *Snapshot) {
	gateway := s.Gateway
	cleartext := false
	for _, m := range gateway.Listeners {
		cleartext = cleartext || m.TLS == nil
	}
	s.ordering = make([]*acme.Manager, len(gateway.Listeners))
	for i, m := range gateway.Listeners {
		if m.TLS != nil && m.TLS.ACME != nil {
			s.ordering[i] = b.manager(s, m.TLS.ACME, cleartext)
			s.managers = append(s.managers, s.ordering[i])
		}
	}
	for i, m := range gateway.Listeners {
		if m.TLS == nil {
			s.Secure = append(s.Secure, nil)
			continue
		}
		shown := &certificate.Serving{Set: certificate.Acquire(s.Leases, m.TLS, certificate.Options{Log: b.Log})}
		if orders := s.ordering[i]; orders != nil {
			shown.Source = orders.GetCertificate
		}
		if len(s.managers) > 0 { // a directory may come to any of them
			shown.Validation = acme.Validation(s.managers)
		}
		s.Secure = append(s.Secure, shown)
	}
}

// ListenerStatus is what people see of a listener.
type ListenerStatus struct {
	server.Status
	Certificates []certificate.Status `json:"certificates,omitempty"` // of files
	ACME         []acme.Status        `json:"acme,omitempty"`         // that are ordered
}

// ListenerStatus tells how the listeners are, in their order.
func (s *Snapshot) ListenerStatus() []ListenerStatus {
	list := make([]ListenerStatus, len(s.Listeners))
	for i, m := range s.Gateway.Listeners {
		list[i].Status = s.Listeners[i].Status()
		if m.TLS == nil {
			continue
		}
		list[i].Certificates = s.Secure[i].Set.Status()
		if orders := s.ordering[i]; orders != nil {
			list[i].ACME = orders.Status()
		}
	}
	return list
}

// manager acquires who orders certificates.
func (b *Builder) manager(s *Snapshot, m *model.ACME, cleartext bool) *acme.Manager {
	options := acme.Options{Log: b.Log, HTTP01: cleartext}
	for _, other := range s.Gateway.Stores {
		if other.Name == m.Store {
			kept := store.Acquire(s.Leases, other)
			options.Redis, options.Keep = kept.Redis, kept.Keep
		}
	}
	return acme.Acquire(s.Leases, *m, options)
}

// challenged answers a directory that validates a name, of this instance's orders
// or of another's with the same storage. It comes before all routes: they know
// nothing of it.
func (s *Snapshot) challenged(x *pipeline.Exchange) bool {
	if len(s.managers) == 0 || x.Request.Method != "GET" || !strings.HasPrefix(x.Request.Path, acme.ChallengePath) {
		return false
	}
	for _, manager := range s.managers {
		var proof string
		var ok bool
		x.Wait(func() { proof, ok = manager.HTTPChallenge(x.Request.Host, x.Request.Path) })
		if ok {
			x.Response = &message.Response{Status: 200, Body: message.Text(proof), Length: int64(len(proof))}
			x.Response.Fields.Put(message.ContentType, "text/plain")
			return true
		}
	}
	return false
}
