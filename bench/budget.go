//go:build linux

package main

import (
	"fmt"
	"strings"
)

// budget is a figure that Sluice has to keep to.
type budget struct {
	what  string
	limit float64
	// figure is what was measured for an engine; ok is false where it was not.
	figure func(r *results, proxy string) (s spread, ok bool)
	// only restricts it to one engine.
	only string
	unit string
}

func budgets() []budget {
	ratio := func(c, to string, m metric) func(r *results, p string) (spread, bool) {
		return func(r *results, p string) (spread, bool) {
			s := r.ratio(c, p, to, m)
			return s, s.n > 0
		}
	}
	var all []budget
	for _, c := range []string{"small-1", "small-64", "small-256"} {
		all = append(all, budget{what: "CPU per request, " + c + ", to nginx's", limit: 1.1, figure: ratio(c, baseline, cpu())})
	}
	for _, c := range []string{"small-1", "small-64", "small-256"} {
		all = append(all, budget{what: "CPU per request, " + c + ", to `ReverseProxy`'s", limit: .25, figure: ratio(c, "reverseproxy", cpu())})
	}
	for _, c := range []string{"small-1", "small-64", "small-256"} {
		all = append(all, budget{what: "p99 added at half load, " + c + ", to nginx's", limit: 1, figure: addedLatency(c)})
	}
	for _, c := range []string{"answer-1m", "upload-1m"} {
		all = append(all, budget{what: "CPU per MiB, " + c + ", to nginx's", limit: 1, figure: ratio(c, baseline, cpu())})
	}
	all = append(all, budget{
		what: "CPU per request, secured, to the bare figure", limit: 1.25,
		figure: func(r *results, p string) (spread, bool) {
			bare, ok := strings.CutSuffix(p, securedSuffix)
			if !ok {
				return spread{}, false
			}
			s := r.ratio("secured", p, bare, cpu())
			return s, s.n > 0
		},
	})
	for _, engine := range []struct {
		name  string
		limit float64
	}{{"loop", 2}, {"goroutine", 12}} {
		all = append(all, budget{
			what: "memory per idle connection, KiB", limit: engine.limit, only: "sluice-" + engine.name, unit: " KiB",
			figure: func(r *results, p string) (spread, bool) {
				s := r.absolute("idle", p, perConnection())
				return s, s.n > 0
			},
		})
	}
	return all
}

// addedLatency is how much a proxy adds to the p99 without any, to how much
// the baseline adds.
func addedLatency(c string) func(r *results, p string) (spread, bool) {
	return func(r *results, p string) (spread, bool) {
		at := map[string]map[int]float64{"direct": {}, baseline: {}, p: {}}
		for i := range r.Samples {
			s := &r.Samples[i]
			if of := at[s.Proxy]; of != nil && s.Case == c {
				if v, ok := latency(true, .99)(s); ok {
					of[s.Round] = v
				}
			}
		}
		var values []float64
		for round, own := range at[p] {
			direct, ok := at["direct"][round]
			if base := at[baseline][round] - direct; ok && base > 0 {
				values = append(values, (own-direct)/base)
			}
		}
		return spreadOf(values), len(values) > 0
	}
}

func (r *results) budgets(b *strings.Builder) {
	var rows [][]string
	for _, budget := range budgets() {
		for _, p := range proxies() {
			if p.engine == "" || budget.only != "" && budget.only != p.name {
				continue
			}
			s, ok := budget.figure(r, p.name)
			if !ok {
				continue
			}
			verdict := "kept"
			if s.median > budget.limit {
				verdict = "missed"
			}
			rows = append(rows, []string{budget.what, "`" + p.engine + "`", fmt.Sprint(budget.limit) + budget.unit, s.ratio(), verdict})
		}
	}
	if len(rows) == 0 {
		return
	}
	var text strings.Builder
	r.table(&text, []string{"budget", "engine", "at most", "measured", ""}, rows)
	fmt.Fprintf(b, "### Budgets\n\n%s", text.String())
}
