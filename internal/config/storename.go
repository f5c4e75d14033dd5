package config

import "go.yaml.in/yaml/v3"

// StoreName is memory, or the name of a store, which is defined.
type StoreName string

// Memory is where something is kept that is shared with nobody.
const Memory StoreName = "memory"

func (v *StoreName) decode(d *decoder, n *yaml.Node) { decodeStore(d, n, v, Memory) }

// SessionStore is where sessions are kept: cookie, or the name of a store, which is
// defined.
type SessionStore string

// InCookie is where a session is kept by its client.
const InCookie SessionStore = "cookie"

func (v *SessionStore) decode(d *decoder, n *yaml.Node) { decodeStore(d, n, v, InCookie) }

// decodeStore takes a word that stands for no store, or the name of a store, which is
// looked up later.
func decodeStore[T StoreName | SessionStore](d *decoder, n *yaml.Node, v *T, none T) {
	d.scalar(n, string(none)+" or the name of a store", func(s scalar) *fault {
		if s.s == "" || !s.loose && s.nature() != isText {
			return unwanted("")
		}
		if *v = T(s.s); *v != none {
			d.stores = append(d.stores, parameterUse{s.where, s.s})
		}
		return nil
	})
}
