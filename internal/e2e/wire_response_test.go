package e2e

import (
	"cmp"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// wireAnswer is the answer of an endpoint, and what the client gets of it.
type wireAnswer struct {
	name  string
	ask   string // the request; empty: a plain GET
	out   string // what the endpoint sends
	later string // and that once the client has the answer
	end   string // as in wireScript

	informed []string // the informational responses that come before
	want     string   // the final response; fields as in wirePass
	reused   bool     // the endpoint's connection takes the next request
	open     bool     // whether it does is left open
	closes   bool     // the client's connection does not
}

// begin has the endpoint answer a request so, and sends it.
func (g *wireGroup) begin(t *testing.T, ask string, script *wireScript) (c *wireClient, method string) {
	t.Helper()
	number := g.next()
	g.endpoint.prepare(number, script)
	t.Cleanup(script.goOn) // however the case ends
	c = g.dial(number)
	ask = cmp.Or(ask, wireGet(""))
	c.send(ask)
	method, _, _ = strings.Cut(ask, " ")
	return c, method
}

// answers runs a table of them.
func (g *wireGroup) answers(t *testing.T, tests []wireAnswer) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			script := &wireScript{out: test.out, later: test.later, end: test.end}
			c, method := g.begin(t, test.ask, script)
			m, informed := c.receive(t, method)
			g.answered(t, &m, "", test.want)
			if !wireNames(test.want, "Via") {
				g.via(t, &m, test.out)
			}
			if !wireNames(test.want, "Connection") {
				g.connection(t, &m, test.closes)
			}
			if m.text() != test.want || !m.whole {
				t.Errorf("the answer is %q, whole: %v; want %q", m.text(), m.whole, test.want)
			}
			if strings.ReplaceAll(strings.Join(informed, "|"), "\nVia: 1.1 tested", "") != strings.Join(test.informed, "|") {
				t.Errorf("before it came %q, want %q", informed, test.informed)
			}
			g.after(t, c, script, test)
		})
	}
}

// after checks what becomes of both connections when an answer was had.
func (g *wireGroup) after(t *testing.T, c *wireClient, script *wireScript, test wireAnswer) {
	t.Helper()
	script.goOn()
	await(t, "what the endpoint sends", script.sent)
	arrivals := g.endpoint.of(c.number)
	if len(arrivals) != 1 {
		t.Fatalf("%d requests arrived", len(arrivals))
	}
	first := arrivals[0].connection
	if test.closes {
		c.over(t)
	} else if next := g.goesOn(t, c); !test.open && (next.connection == first) != test.reused {
		t.Errorf("the next request came over connection %d after %d, want the same: %v", next.connection, first, test.reused)
	}
	if !test.open && !test.reused {
		gatewaytest.WaitFor(t, "the endpoint's connection is closed", func() bool { return g.endpoint.hasEnded(first) })
	}
	c.Close()
	if script.fault != nil {
		t.Error(script.fault)
	}
}

// wireFault is an answer that is none: 502, and the endpoint's connection is
// given up.
type wireFault struct {
	name string
	out  string
	ask  string // empty: a plain GET
	end  string // as in wireScript
	word string // empty: upstream_protocol
}

// faults runs a table of them.
func (g *wireGroup) faults(t *testing.T, tests []wireFault) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			script := &wireScript{out: test.out, end: test.end}
			c, method := g.begin(t, test.ask, script)
			m, _ := c.receive(t, method)
			if status := wireStatus(m.line); status != 502 {
				t.Errorf("the answer is %q, want 502", m.text())
			}
			g.connection(t, &m, false)
			g.problem(t, &m, method, cmp.Or(test.word, "upstream_protocol"))
			g.after(t, c, script, wireAnswer{})
		})
	}
}

// wireTorn is an answer that turns out bad when its beginning is with the
// client already, who must see that it is not whole. The beginning has "begin"
// for content.
type wireTorn struct {
	name  string
	out   string // the beginning
	later string
	end   string // as in wireScript
	word  string
}

// torn runs a table of them, towards clients of a version.
func (g *wireGroup) torn(t *testing.T, version string, tests []wireTorn) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name+" to "+version, func(t *testing.T) {
			script := &wireScript{out: test.out, later: test.later, end: test.end}
			number := g.next()
			g.endpoint.prepare(number, script)
			t.Cleanup(script.goOn)
			c := g.dial(number)
			c.seen = script.goOn
			c.send("GET /{n} " + version + "\r\nHost: x\r\n\r\n")
			m, _ := c.receive(t, "GET")
			g.answered(t, &m, test.word, "")
			if wireStatus(m.line) != 200 || m.whole || m.body != "begin" {
				t.Errorf("the answer is %q, whole: %v; want what came of it, cut", m.text(), m.whole)
			}
			await(t, "what the endpoint sends", script.sent)
			arrivals := g.endpoint.of(number)
			if len(arrivals) != 1 {
				t.Fatalf("%d requests arrived", len(arrivals))
			}
			gatewaytest.WaitFor(t, "the endpoint's connection is closed", func() bool { return g.endpoint.hasEnded(arrivals[0].connection) })
		})
	}
}
