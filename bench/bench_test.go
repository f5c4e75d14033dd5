//go:build linux

package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   spread
	}{
		{nil, spread{}},
		{[]float64{3}, spread{3, 3, 3, 1}},
		{[]float64{5, 1, 2}, spread{2, 1, 5, 3}},
		{[]float64{4, 1, 2, 9}, spread{3, 1, 9, 4}},
	} {
		if got := spreadOf(slices.Clone(test.values)); got != test.want {
			t.Errorf("%v: %+v, want %+v", test.values, got, test.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234.5: "1,234", 1234567: "1,234,567", -1234: "-1,234",
	} {
		if got := number(value); got != want {
			t.Errorf("%v: %s, want %s", value, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{1: "1 x", 64: "64 xs", 1024: "1,024 xs", 10000: "10,000 xs"} {
		if got := count(n, "x"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		only    string
		cases   string
		proxies string // empty: all
	}{
		{"", "small-1 small-8 small-64 small-256 small-1024 connect answer-100k answer-1m upload-1m idle secured tls-64 tls-256 tls-connect tls-resume tls-100k h2 h2c h2-100k tls-idle", ""},
		{"small-1", "small-1", ""}, // whole names
		{"small-1|sluice-.*", "small-1", "nginx sluice-loop sluice-goroutine sluice-loop-secured sluice-goroutine-secured"},
		{"caddy|idle|upload-1m", "upload-1m idle", "nginx caddy"},
	} {
		cases, chosen, err := choose(test.only)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range cases {
			names = append(names, c.name)
		}
		if got := strings.Join(names, " "); got != test.cases {
			t.Errorf("%q: cases %s, want %s", test.only, got, test.cases)
		}
		names = nil
		for _, p := range chosen {
			names = append(names, p.name)
		}
		if got := strings.Join(names, " "); got != test.proxies && (test.proxies != "" || len(chosen) != len(proxies())) {
			t.Errorf("%q: proxies %s, want %s", test.only, got, test.proxies)
		}
	}
	for _, wrong := range []string{"(", "none"} {
		if _, _, err := choose(wrong); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, arguments := range [][]string{{"-rounds", "0"}, {"-duration", "1ms"}, {"-nonsense"}, {"more"}} {
		if err := run(context.Background(), arguments, io.Discard, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", arguments, err)
		}
	}
}

func TestReplaceSection(t *testing.T) {
	page := "before\n" + sectionStart + "\nold\n" + sectionEnd + "\nafter\n"
	got, err := replaceSection(page, "new\n")
	if want := "before\n" + sectionStart + "\n\nnew\n\n" + sectionEnd + "\nafter\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, wrong := range []string{"", sectionStart, sectionEnd + sectionStart} {
		if _, err := replaceSection(wrong, ""); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
	text, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replaceSection(string(text), ""); err != nil {
		t.Errorf("docs/benchmarks.md: %v", err)
	}
}

// example has every proxy in every case that it knows, in two rounds. Against nginx the others
// take twice and four times the processor time.
func example() *results {
	r := &results{Machine: "a machine", Rounds: minRounds, Duration: time.Second, Fields: map[string]fields{}}
	for round := range 2 {
		for _, c := range loads() {
			for _, p := range proxies() {
				if !c.in(p) {
					continue
				}
				s := sample{Round: round, Case: c.name, Proxy: p.name, Resident: 1 << 20}
				o := &outcome{Requests: 1000, Seconds: 1, P50: 1000, P99: 2000, P999: 3000}
				if p.name == "direct" {
					o.P99 = 1000
				} else {
					o.CPU = 1000 * 1000 * 10
				}
				if p.name != baseline && p.name != "direct" {
					o.CPU <<= 1 + round
					o.P99 = 4000
				}
				o.UserTicks, o.SystemTicks = 1, 3
				if c.idle {
					s.Connections, s.PerConnection = 10, 1024
				} else {
					s.Saturated = o
				}
				if c.rated() {
					s.Half = o
				}
				r.Samples = append(r.Samples, s)
			}
		}
	}
	return r
}

func TestResults(t *testing.T) {
	r := example()
	if got, want := r.ratio("small-64", "caddy", baseline, cpu()), (spread{3, 2, 4, 2}); got != want {
		t.Errorf("ratio %+v, want %+v", got, want)
	}
	if got := r.absolute("small-64", "caddy", onSaturated((*outcome).user)).low; math.Abs(got-5) > 1e-9 {
		t.Errorf("user %v, want a quarter of 20 µs", got)
	}
	if got, ok := addedLatency("small-64")(r, "sluice-loop"); !ok || got.median != 3 {
		t.Errorf("added %+v, want 3 µs to nginx's 1", got)
	}
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Proxy == "caddy" && s.Half != nil {
			late := *s.Half
			late.Scheduled = late.Requests * 2
			s.Half = &late
		}
	}
	if got := r.ratio("small-64", "caddy", baseline, latency(true, .5)); got.n != 0 {
		t.Errorf("a proxy that did not keep up has a latency of %+v", got)
	}
	if got := r.cell("small-64", baseline, latency(true, .999)); got != "**3.00 (3.00–3.00)**" {
		t.Errorf("p99.9 of 1000 requests: %s", got)
	}
}

func TestRender(t *testing.T) {
	r := example()
	page := r.markdown()
	for _, c := range loads() {
		if !strings.Contains(page, "### "+c.name+": ") {
			t.Errorf("the page does not tell of %s", c.name)
		}
	}
	for _, p := range proxies() {
		if !strings.Contains(page, "| "+p.title+" |") {
			t.Errorf("the page does not tell of %s", p.title)
		}
	}
	for row := range strings.Lines(page) {
		if strings.Contains(row, "to nginx's |") && strings.Contains(row, "CPU per request") && !strings.Contains(row, "| missed |") {
			t.Errorf("three times nginx's is said to be kept: %s", row)
		}
	}
	decoder := xml.NewDecoder(strings.NewReader(r.svg()))
	circles := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "circle" {
			circles++
		}
	}
	cases, shown := r.plotted()
	dots := len(shown) // the legend's
	if dots != len(proxies())-4 {
		t.Errorf("%d proxies are plotted: all are to be, but nginx, no proxy, and what is secured", dots)
	}
	for _, c := range cases {
		for _, p := range shown {
			if !c.idle && c.in(p) && p.command != nil && p.name != baseline {
				dots++
			}
		}
	}
	if circles != dots {
		t.Errorf("the plot has %d dots instead of %d", circles, dots)
	}
	if want := "| CPU per request, secured, to the bare figure | `loop` | 1.25 | 1.00 (1.00–1.00) | kept |"; !strings.Contains(page, want) {
		t.Errorf("the page does not tell what security costs: %s", want)
	}
	_, streams, _ := strings.Cut(page, "### h2: ")
	streams, _, _ = strings.Cut(streams, "### ")
	if strings.Contains(streams, "half load") || strings.Contains(streams, "TCP relay") || !strings.Contains(streams, "saturated p50") {
		t.Errorf("the page tells of HTTP/2 what was not measured, or not what was: %s", streams)
	}
}

func TestResultsFile(t *testing.T) {
	file := t.TempDir() + "/results.json"
	r := example()
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	again, err := readResults(file)
	if err != nil {
		t.Fatal(err)
	}
	if again.markdown() != r.markdown() {
		t.Error("results read from a file say something else")
	}
}
