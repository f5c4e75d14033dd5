package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// Numbers says what is let through, in one line for people.
func (s *LimitStatus) Numbers() string {
	var parts []string
	if s.Rate != "" {
		parts = append(parts, s.Rate)
	}
	if s.Burst > 0 {
		parts = append(parts, fmt.Sprint("burst ", s.Burst))
	}
	if s.Cost > 0 {
		parts = append(parts, fmt.Sprint("cost ", s.Cost))
	}
	switch len(s.Tiers) {
	case 0:
	case 1:
		parts = append(parts, "1 tier")
	default:
		parts = append(parts, fmt.Sprint(len(s.Tiers), " tiers"))
	}
	if s.Max > 0 {
		parts = append(parts, fmt.Sprint(s.Max, " at once"))
	}
	if len(s.Adaptive) > 0 {
		parts = append(parts, "now "+s.found())
	}
	if s.Algorithm != "" {
		parts = append(parts, s.Algorithm)
	}
	if s.IPv6Prefix > 0 {
		parts = append(parts, fmt.Sprint("IPv6 by /", s.IPv6Prefix))
	}
	if s.Mode == "shadow" {
		parts = append(parts, s.Mode)
	}
	if s.AdaptiveRate != nil {
		parts = append(parts, "adaptive")
		for _, u := range s.AdaptiveRate.Upstreams {
			if u.State != "normal" {
				parts = append(parts, u.State+" for "+u.Upstream)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// found is what an adaptive limit lets through at once now: of each key that is shown
// alike, or from the least of them to the most.
func (s *LimitStatus) found() string {
	least, most := s.Adaptive[0].Limit, s.Adaptive[0].Limit
	for _, a := range s.Adaptive {
		least, most = min(least, a.Limit), max(most, a.Limit)
	}
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// String says how the store is, in a few words for people; nil is memory.
func (s *LimitStoreStatus) String() string {
	switch {
	case s == nil:
		return "memory"
	case !s.Answers:
		return fmt.Sprintf("%s cannot be used: %s", s.Name, s.OnFailure)
	}
	text := fmt.Sprintf("%s, %d instances", s.Name, s.Instances)
	if s.Instances == 1 {
		text = s.Name + ", 1 instance"
	}
	if s.Sync == "lease" {
		text += ", by leases"
	}
	return text
}
