package config

import "go.yaml.in/yaml/v3"

// SessionStore is where sessions are kept: cookie, or the name of a store, which is
// defined.
type SessionStore string

// InCookie is where a session is kept by its client.
const InCookie SessionStore = "cookie"

func (v *SessionStore) decode(d *decoder, n *yaml.Node) {
	d.scalar(n, "cookie or the name of a store", func(s scalar) *fault {
		if s.s == "" || !s.loose && s.nature() != isText {
			return unwanted("")
		}
		if *v = SessionStore(s.s); *v != InCookie {
			d.stores = append(d.stores, parameterUse{s.where, s.s})
		}
		return nil
	})
}
