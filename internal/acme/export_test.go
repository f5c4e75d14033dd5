package acme

// Done is closed when a released Manager has nothing running and needs its
// storage no more; never, if it was not started.
func (m *Manager) Done() <-chan struct{} { return m.done }

// Names are the names that certificates are ordered for, in the order of the
// settings.
func (m *Manager) Names() []string {
	names := make([]string, len(m.names))
	for i, n := range m.names {
		names[i] = n.domain
	}
	return names
}
