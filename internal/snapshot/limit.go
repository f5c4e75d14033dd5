package snapshot

import "sluice/internal/pipeline"

// show takes a limit, once however many routes have it.
func (s *Snapshot) show(identity string, status func() pipeline.LimitStatus) {
	if !s.shown[identity] {
		s.shown[identity] = true
		s.limits = append(s.limits, status)
	}
}

// Limits tells how the limits are: those of upstreams first, then those of routes in
// the order in which these match.
func (s *Snapshot) Limits() []pipeline.LimitStatus {
	list := make([]pipeline.LimitStatus, len(s.limits))
	for i, status := range s.limits {
		list[i] = status()
	}
	return list
}
