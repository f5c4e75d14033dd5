//go:build linux

package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	sectionStart = "<!-- whole gateway: written by make bench -->"
	sectionEnd   = "<!-- end of whole gateway -->"
)

// replaceSection puts text between the two markers of a page.
func replaceSection(page, text string) (string, error) {
	before, rest, ok := strings.Cut(page, sectionStart)
	if !ok {
		return "", errors.New("no " + sectionStart)
	}
	_, after, ok := strings.Cut(rest, sectionEnd)
	if !ok {
		return "", errors.New("no " + sectionEnd)
	}
	return before + sectionStart + "\n\n" + text + "\n" + sectionEnd + after, nil
}

// The metrics. Times are in µs, memory in MiB.

func onSaturated(f func(o *outcome) float64) metric {
	return func(s *sample) (float64, bool) {
		if s.Saturated == nil || s.Saturated.CPU == 0 {
			return 0, false
		}
		return f(s.Saturated), true
	}
}

func cpu() metric { return onSaturated((*outcome).cpu) }

func cpuAtHalf() metric {
	return func(s *sample) (float64, bool) {
		if s.Half == nil || s.Half.CPU == 0 || s.Half.Requests == 0 || !s.Half.kept() {
			return 0, false
		}
		return s.Half.cpu(), true
	}
}

func perSecond() metric {
	return func(s *sample) (float64, bool) {
		if s.Saturated == nil {
			return 0, false
		}
		return s.Saturated.perSecond(), true
	}
}

func memory() metric {
	return func(s *sample) (float64, bool) { return float64(s.Resident) / (1 << 20), s.Resident > 0 }
}

func perConnection() metric {
	return func(s *sample) (float64, bool) { return s.PerConnection / 1024, s.Connections > 0 }
}

// latency takes a quantile, where at least one request lies beyond it.
func latency(half bool, quantile float64) metric {
	return func(s *sample) (float64, bool) {
		o := s.Saturated
		if half {
			o = s.Half
		}
		if o == nil || half && !o.kept() {
			return 0, false
		}
		ns := o.P50
		switch {
		case quantile == .99:
			ns = o.P99
		case quantile == .999:
			ns = o.P999
		}
		return float64(ns) / 1000, float64(o.Requests)*(1-quantile) >= 1
	}
}

// number prints three digits.
func number(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	text := strconv.FormatFloat(v, 'f', min(max(digits, 0), 3), 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return whole
}

func (s spread) ratio() string {
	if s.n == 0 {
		return "–"
	}
	if s.n == 1 {
		return strconv.FormatFloat(s.median, 'f', 2, 64)
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.median, s.low, s.high)
}

func (s spread) absolute() string {
	switch s.n {
	case 0:
		return "–"
	case 1:
		return number(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.median), number(s.low), number(s.high))
}

// cell is a ratio to the baseline; the baseline's own is the figure.
func (r *results) cell(c, p string, m metric) string {
	if p == baseline {
		return "**" + r.absolute(c, p, m).absolute() + "**"
	}
	return r.ratio(c, p, baseline, m).ratio()
}

func (r *results) table(b *strings.Builder, head []string, rows [][]string) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteByte('\n')
}

// measured are the proxies and cases that there are samples of, in order.
func (r *results) measured() (cases []load, some []proxy) {
	for _, c := range loads() {
		if r.has(c.name, "") {
			cases = append(cases, c)
		}
	}
	for _, p := range proxies() {
		if r.has("", p.name) {
			some = append(some, p)
		}
	}
	return cases, some
}

func (r *results) markdown() string {
	cases, proxies := r.measured()
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s. %s, %s of %v saturated and %v at half load, each proxy once per\ncase and round, freshly started.\n\n",
		r.Machine, r.Time.Format("2 January 2006"), count(r.Rounds, "round"), r.Duration, r.Duration*2/3)
	fmt.Fprintf(b, "Figures are ratios to nginx of the same round: the median (least–greatest). **Bold** is\nnginx's own figure. Ratios of requests per second are better above 1, all others below.\n\n")

	r.overview(b, cases, proxies)
	r.budgets(b)
	r.jobs(b, proxies)
	for _, c := range cases {
		fmt.Fprintf(b, "### %s: %s\n\n", c.name, c.title)
		there := slices.DeleteFunc(slices.Clone(proxies), func(p proxy) bool { return !r.has(c.name, p.name) })
		if c.idle {
			r.idleTable(b, c, there)
		} else {
			r.costTable(b, c, there)
			r.latencyTable(b, c, there)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r *results) overview(b *strings.Builder, cases []load, proxies []proxy) {
	fmt.Fprintf(b, "### Processor time per request, saturated\n\n")
	if r.Rounds >= minRounds {
		fmt.Fprintf(b, "![Processor time per request, as ratios to nginx](benchmarks.svg)\n\n")
	}
	head := []string{"case", "nginx, µs"}
	var columns []proxy
	for _, p := range proxies {
		if p.command != nil && p.name != baseline && !p.secured {
			head = append(head, p.title)
			columns = append(columns, p)
		}
	}
	var rows [][]string
	for _, c := range cases {
		if c.idle || c.secured {
			continue
		}
		row := []string{c.name, r.cell(c.name, baseline, cpu())}
		for _, p := range columns {
			row = append(row, r.cell(c.name, p.name, cpu()))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		rows = [][]string{{"none of these"}}
	}
	r.table(b, head, rows)
}

func (r *results) costTable(b *strings.Builder, c load, proxies []proxy) {
	var rows [][]string
	for _, p := range proxies {
		parts := "–"
		if s := r.absolute(c.name, p.name, cpu()); s.n > 0 {
			parts = number(r.absolute(c.name, p.name, onSaturated((*outcome).user)).median) + " + " +
				number(r.absolute(c.name, p.name, onSaturated((*outcome).system)).median)
		}
		row := []string{p.title, r.cell(c.name, p.name, cpu()), parts}
		if c.rated() {
			row = append(row, r.cell(c.name, p.name, cpuAtHalf()))
		}
		rows = append(rows, append(row, r.cell(c.name, p.name, perSecond()), r.cell(c.name, p.name, memory())))
	}
	head := []string{"proxy", "CPU per request, µs", "user + system, µs"}
	if c.rated() {
		head = append(head, "CPU per request at half load, µs")
	}
	r.table(b, append(head, "requests per second", "memory, MiB"), rows)
}

func (r *results) latencyTable(b *strings.Builder, c load, proxies []proxy) {
	var rows [][]string
	loads, head := []bool{true, false}, []string{"half load p50", "p99", "p99.9", "saturated p50", "p99", "p99.9"}
	if !c.rated() {
		loads, head = loads[1:], head[3:]
	}
	for _, p := range proxies {
		row := []string{p.title}
		for _, half := range loads {
			for _, q := range []float64{.5, .99, .999} {
				row = append(row, r.cell(c.name, p.name, latency(half, q)))
			}
		}
		rows = append(rows, row)
	}
	if c.rated() {
		fmt.Fprintf(b, "Latency in µs; half load is %s requests per second, the same for all; – is a proxy that\ndid not keep up with it, or a quantile of too few requests.\n\n", number(r.Rates[c.name]))
	} else {
		fmt.Fprintf(b, "Latency in µs; – is a quantile of too few requests.\n\n")
	}
	r.table(b, append([]string{"proxy"}, head...), rows)
}

func (r *results) idleTable(b *strings.Builder, c load, proxies []proxy) {
	var rows [][]string
	for _, p := range proxies {
		toBaseline := "**1**"
		if p.name != baseline {
			toBaseline = r.ratio(c.name, p.name, baseline, perConnection()).ratio()
		}
		connections := r.absolute(c.name, p.name, func(s *sample) (float64, bool) { return float64(s.Connections), true })
		rows = append(rows, []string{
			p.title, strconv.Itoa(int(connections.median)), r.absolute(c.name, p.name, perConnection()).absolute(),
			toBaseline, r.absolute(c.name, p.name, memory()).absolute(),
		})
	}
	fmt.Fprintf(b, "Each connection made one request and then stays, for a second. Memory is what the processes\nmap (Pss); the kernel's own for the sockets is not in it.\n\n")
	r.table(b, []string{"proxy", "connections", "KiB per connection", "to nginx", "all memory, MiB"}, rows)
}

// jobs tells what each proxy is and what it added to messages, as the endpoint
// and the client saw it.
func (r *results) jobs(b *strings.Builder, proxies []proxy) {
	var rows [][]string
	for _, p := range proxies {
		f := r.Fields[p.name]
		row := []string{p.title, r.Versions[p.name], strings.Join(f.Request, ", "), strings.Join(f.Response, ", ")}
		if p.opaque {
			row[2], row[3] = "nothing", "nothing"
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(b, "### What each of them did\n\n")
	r.table(b, []string{"proxy", "version", "adds to requests", "adds to responses"}, rows)
}
