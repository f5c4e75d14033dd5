//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// results are what a run found, as they are kept in a file.
type results struct {
	Machine  string
	Time     time.Time
	Rounds   int
	Duration time.Duration
	Versions map[string]string
	Fields   map[string]fields  // by proxy
	Rates    map[string]float64 // of half load, by case
	Samples  []sample
}

// fields are the names that a proxy adds.
type fields struct{ Request, Response []string }

// sample is one proxy in one case in one round.
type sample struct {
	Round       int
	Case, Proxy string
	Saturated   *outcome `json:",omitempty"`
	Half        *outcome `json:",omitempty"`
	Resident    int64    // bytes, under load or with the idle connections
	// Of the case of idle connections.
	Connections   int     `json:",omitempty"`
	PerConnection float64 `json:",omitempty"` // bytes
}

func (s *sample) String() string {
	if s.Saturated == nil {
		return fmt.Sprintf("%d connections, %.1f KiB each, %.1f MiB in all", s.Connections, s.PerConnection/1024, float64(s.Resident)/(1<<20))
	}
	half := ""
	if s.Half != nil {
		half = fmt.Sprintf("half load p50 %.0f, p99 %.0f, p99.9 %.0f µs", float64(s.Half.P50)/1000, float64(s.Half.P99)/1000, float64(s.Half.P999)/1000)
		if !s.Half.kept() {
			half += " (not kept up with)"
		}
		half += "; "
	}
	return fmt.Sprintf("%7.1f µs of CPU (%.0f%% user), %6.0f/s, p99 %6.0f µs; %s%.1f MiB",
		s.Saturated.cpu(), 100*s.Saturated.user()/max(s.Saturated.cpu(), 1e-9), s.Saturated.perSecond(), float64(s.Saturated.P99)/1000,
		half, float64(s.Resident)/(1<<20))
}

func readResults(file string) (*results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &results{}
	return r, json.Unmarshal(text, r)
}

func (r *results) write(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// metric takes a figure from a sample; ok is false where it has none.
type metric func(s *sample) (value float64, ok bool)

// spread is a figure over the rounds.
type spread struct {
	median, low, high float64
	n                 int
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	middle := values[len(values)/2]
	if len(values)%2 == 0 {
		middle = (values[len(values)/2-1] + middle) / 2
	}
	return spread{median: middle, low: values[0], high: values[len(values)-1], n: len(values)}
}

// absolute is a proxy's figure over the rounds.
func (r *results) absolute(c, p string, m metric) spread {
	var values []float64
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Case == c && s.Proxy == p {
			if v, ok := m(s); ok {
				values = append(values, v)
			}
		}
	}
	return spreadOf(values)
}

// ratio is a proxy's figure to another's, round by round.
func (r *results) ratio(c, p, to string, m metric) spread {
	bases := map[int]float64{}
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Case == c && s.Proxy == to {
			if v, ok := m(s); ok && v > 0 {
				bases[s.Round] = v
			}
		}
	}
	var values []float64
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Case == c && s.Proxy == p && bases[s.Round] > 0 {
			if v, ok := m(s); ok {
				values = append(values, v/bases[s.Round])
			}
		}
	}
	return spreadOf(values)
}

// has tells whether a proxy was measured at all, or in a case.
func (r *results) has(c, p string) bool {
	return slices.ContainsFunc(r.Samples, func(s sample) bool { return (c == "" || s.Case == c) && (p == "" || s.Proxy == p) })
}
