//go:build linux

package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// svg draws the processor time per request of each proxy in each case, as
// ratios to the baseline on a logarithmic axis: a dot for the median, a line
// for the spread. It is readable on light and dark pages.
func (r *results) svg() string {
	rows, shown := r.plotted()
	const (
		width, left, right, top = 860, 110, 20, 74
		lane, gap               = 11, 12
	)
	low, high := 0.5, 2.0
	for _, c := range rows {
		for _, p := range shown {
			s := r.ratio(c.name, p.name, baseline, cpu())
			for s.n > 0 && s.low < low {
				low /= 2
			}
			for s.n > 0 && s.high > high {
				high *= 2
			}
		}
	}
	x := func(v float64) float64 {
		return left + (width-left-right)*math.Log(v/low)/math.Log(high/low)
	}
	band := lane*len(shown) + gap
	height := top + band*len(rows) + 40

	b := &strings.Builder{}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Processor time per request, as ratios to nginx">`+"\n", width, height, width, height)
	b.WriteString(`<style>
.page{fill:#fff} .band{fill:#f6f8fa} text{fill:#1f2328} .grid{stroke:#d0d7de} .one{stroke:#1f2328}
@media (prefers-color-scheme:dark){.page{fill:#0d1117} .band{fill:#161b22} text{fill:#e6edf3} .grid{stroke:#30363d} .one{stroke:#e6edf3}}
text{font:12px system-ui,sans-serif}
.title{font-size:14px;font-weight:600}
.one{stroke-dasharray:4 3}
.spread{stroke-width:2}
</style>
`)
	fmt.Fprintf(b, `<rect class="page" width="%d" height="%d"/>`+"\n", width, height)
	fmt.Fprintf(b, `<text class="title" x="%d" y="20">Processor time per request, to nginx’s (median and spread of %d rounds; less is better)</text>`+"\n", 12, r.Rounds)
	at := 12.0
	for _, p := range shown {
		title := plain(p.title)
		fmt.Fprintf(b, `<circle cx="%.0f" cy="41" r="5" fill="%s"/><text x="%.0f" y="45">%s</text>`+"\n", at+5, p.colour, at+15, html.EscapeString(title))
		at += 32 + 6.6*float64(len(title))
	}
	for i, c := range rows {
		y := top + band*i
		if i%2 == 0 {
			fmt.Fprintf(b, `<rect class="band" y="%d" width="%d" height="%d"/>`+"\n", y-gap/2, width, band)
		}
		fmt.Fprintf(b, `<text x="12" y="%d">%s</text>`+"\n", y+lane*len(shown)/2+4, c.name)
	}
	bottom := top + band*len(rows) - gap/2
	for v := low; v <= high*1.001; v *= 2 {
		class := "grid"
		if v == 1 {
			class = "one"
		}
		fmt.Fprintf(b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", class, x(v), x(v), top-gap/2, bottom, x(v), bottom+18, v)
	}
	for i, c := range rows {
		for j, p := range shown {
			if s := r.ratio(c.name, p.name, baseline, cpu()); s.n > 0 {
				y := top + band*i + lane*j + lane/2
				fmt.Fprintf(b, `<line class="spread" stroke="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><circle cx="%.1f" cy="%d" r="4.5" fill="%s"><title>%s, %s: %s</title></circle>`+"\n",
					p.colour, x(s.low), x(s.high), y, y, x(s.median), y, p.colour, c.name, html.EscapeString(plain(p.title)), s.ratio())
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// plotted are the cases and proxies that have a ratio to show.
func (r *results) plotted() (cases []load, shown []proxy) {
	all, measured := r.measured()
	for _, c := range all {
		if !c.idle && !c.secured {
			cases = append(cases, c)
		}
	}
	for _, p := range measured {
		if p.command != nil && p.name != baseline && !p.secured {
			shown = append(shown, p)
		}
	}
	return cases, shown
}

// plain is a title without Markdown.
func plain(title string) string { return strings.ReplaceAll(title, "`", "") }
