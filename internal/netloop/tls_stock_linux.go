package netloop

// tlsStock is that of all loops.
func (l *loop) tlsStock() *tlsStock { return &l.owner.tls }
