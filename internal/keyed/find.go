package keyed

// Find returns the state of a key, which counts as asking for it; nil: there is none, and
// none is made. It takes no lock and allocates nothing. It may miss a state that is just
// being made.
func (t *Table[V]) Find(key uint64) *V {
	if n := t.shards[key>>t.shift].find(key); n != nil {
		return &n.value
	}
	return nil
}
