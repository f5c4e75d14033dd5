package ratelimit

// Instances is how many instances there are, as a limit with a store sees it.
func (l *Limit) Instances() int64 { return l.remote.instances.Load() }
