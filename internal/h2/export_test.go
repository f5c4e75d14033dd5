package h2

// Active is the number of streams whose handlers have not returned.
func (c *Conn) Active() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}
