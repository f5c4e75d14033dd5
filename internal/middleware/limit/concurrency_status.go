package limit

import (
	"cmp"
	"slices"
	"time"

	"sluice/internal/pipeline"
)

// shownKeys is how many keys of an adaptive limit are shown.
const shownKeys = 20

// status tells people how the limit is.
func (c *concurrency) status(name string) pipeline.LimitStatus {
	s := pipeline.LimitStatus{Limit: name, Kind: "concurrency_limit", Max: c.Max, Keys: c.table.Len(), Evicted: c.table.Evicted()}
	showKeys(&s, c.Keys)
	c.table.Range(func(_ uint64, g *gate) bool {
		stand := g.stand()
		s.Running += stand.running
		s.Waiting += stand.waiting
		if stand.gradient != nil {
			s.Adaptive = append(s.Adaptive, pipeline.AdaptiveStatus{
				Key: stand.name, Running: stand.running, Waiting: stand.waiting,
				Limit: stand.gradient.Limit(), Base: float64(stand.gradient.Base()) / float64(time.Millisecond),
			})
		}
		return true
	})
	slices.SortFunc(s.Adaptive, func(a, b pipeline.AdaptiveStatus) int {
		return cmp.Or(cmp.Compare(b.Running+b.Waiting, a.Running+a.Waiting), cmp.Compare(a.Key, b.Key))
	})
	s.Adaptive = s.Adaptive[:min(len(s.Adaptive), shownKeys)]
	return s
}
