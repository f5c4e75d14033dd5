package app

// Idle returns nil once nothing is held on lease.
func (g *Gateway) Idle() error { return g.registry.Idle() }

// SocketNames are those of the sockets that a new process would be given.
func (g *Gateway) SocketNames() ([]string, error) {
	names, files, err := g.socketFiles()
	for _, f := range files {
		_ = f.Close()
	}
	return names, err
}
