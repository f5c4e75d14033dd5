package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/gatewaytest"
)

// wireGroup is a gateway with one endpoint that the cases of a table share. A
// case has a number, which stands for {n} in its bytes, so that nothing of one
// is taken for another's.
type wireGroup struct {
	gw       *gatewaytest.Gateway
	endpoint *wireEndpoint

	cases int
	ended map[string]wireEnd // the exchanges so far, by request id
}

// wireEnd is how an exchange ended, as its log line tells it.
type wireEnd struct {
	name   string // of its case
	status int
	word   string
}

// newWireGroup starts a gateway. At the end, finish compares the log, the
// metrics, and what reached the endpoint with what the cases had.
//
// The tables hold for the engines that read and write HTTP/1.1 themselves. What
// net/http mends, answers itself or lets pass, its adapters never see.
func newWireGroup(t *testing.T) *wireGroup {
	t.Helper()
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("this engine leaves the wire to net/http")
	}
	g := &wireGroup{endpoint: newWireEndpoint(t), ended: map[string]wireEnd{}}
	g.gw = gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0", limits: {header_bytes: 4KiB, headers: 40, uri_bytes: 1KiB}}}
admin: {address: "127.0.0.1:0", name: tested}
routes:
  - {id: all, match: {path_prefix: /}, upstream: %[1]q}
  - {id: whole, match: {hosts: [x, y]}, upstream: %[1]q}
`, g.endpoint.url))
	return g
}

// next numbers a case.
func (g *wireGroup) next() int {
	g.cases++
	return g.cases
}

// wireFill puts the number of a case where {n} stands.
func wireFill(text string, number int) string {
	return strings.ReplaceAll(text, "{n}", "n"+strconv.Itoa(number))
}

// wireClient is a connection of a client, which notes what it reads.
type wireClient struct {
	net.Conn
	in     *bufio.Reader
	number int
	heard  strings.Builder
	seen   func() // called once "begin" has come; may be nil
}

func (g *wireGroup) dial(number int) *wireClient {
	c := &wireClient{Conn: g.gw.Dial("web"), number: number}
	c.in = bufio.NewReader(c)
	return c
}

// Read notes what comes.
func (c *wireClient) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.heard.Write(p[:n])
	if c.seen != nil && strings.Contains(c.heard.String(), "begin") {
		c.seen()
		c.seen = nil
	}
	return n, err
}

// send writes, unless the gateway has closed already, which shows in what it
// answers.
func (c *wireClient) send(text string) {
	_, _ = io.WriteString(c, wireFill(text, c.number))
}

// receive reads a final response to a request with this method of this version,
// and the informational ones before it.
func (c *wireClient) receive(t *testing.T, method string) (final wireMessage, informed []string) {
	t.Helper()
	for {
		m, err := readWireMessage(c.in, func(line string) bool {
			status := wireStatus(line)
			return method == "HEAD" || status < 200 || status == 204 || status == 304
		}, true)
		if err != nil {
			t.Fatalf("no response: %v; came: %q", err, c.heard.String())
		}
		if status := wireStatus(m.line); status >= 200 || status == 101 || !m.whole {
			return m, informed
		}
		informed = append(informed, m.text())
	}
}

// over reads on to the end of the connection, where nothing more may come.
func (c *wireClient) over(t *testing.T) {
	t.Helper()
	if rest, err := io.ReadAll(c.in); err != nil || len(rest) > 0 {
		t.Errorf("then came %q, %v; want the end of the connection", rest, err)
	}
}

// wireStatus is the status of a status line, or 0.
func wireStatus(line string) int {
	if parts := strings.SplitN(line, " ", 3); len(parts) == 3 && parts[0] == "HTTP/1.1" && len(parts[1]) == 3 {
		if status, err := strconv.Atoi(parts[1]); err == nil {
			return status
		}
	}
	return 0
}

// answered checks what every response has, and notes how its exchange ended.
// The fields of the gateway are taken out of it, but those that keep names.
func (g *wireGroup) answered(t *testing.T, m *wireMessage, word, keep string) {
	t.Helper()
	ids := m.take("X-Request-ID")
	if len(ids) != 1 || len(ids[0]) != 36 {
		t.Fatalf("X-Request-ID is %q in %q", ids, m.text())
	}
	if _, known := g.ended[ids[0]]; known {
		t.Errorf("the request id %s has been there", ids[0])
	}
	g.ended[ids[0]] = wireEnd{t.Name(), wireStatus(m.line), word}
	if wireNames(keep, "Date") {
		return
	}
	dates := m.take("Date") // RFC 9110 6.6.1
	if len(dates) != 1 {
		t.Errorf("Date is %q", dates)
	} else if _, err := http.ParseTime(dates[0]); err != nil {
		t.Errorf("Date is %q", dates)
	}
}

// wireNames tells whether a text has a field line with a name.
func wireNames(text, name string) bool {
	return strings.Contains("\n"+strings.ToLower(text), "\n"+strings.ToLower(name)+":")
}

// refused reads a refusal: a problem document, after which the connection ends.
func (g *wireGroup) refused(t *testing.T, c *wireClient, method string, status int, word string) {
	t.Helper()
	m, informed := c.receive(t, method)
	if wireStatus(m.line) != status || len(informed) > 0 {
		t.Errorf("%q after %q, want %d", m.text(), informed, status)
	}
	g.problem(t, &m, method, word)
	if got := m.take("Connection"); !cmp.Equal(got, []string{"close"}) {
		t.Errorf("Connection is %q", got)
	}
	c.over(t)
}

// problem checks a problem document (RFC 9457).
func (g *wireGroup) problem(t *testing.T, m *wireMessage, method, word string) {
	t.Helper()
	id := slices.Clone(m.fields)
	g.answered(t, m, word, "")
	if got := m.take("Content-Type"); !cmp.Equal(got, []string{"application/problem+json"}) || !m.whole {
		t.Errorf("no whole problem document: Content-Type is %q, %q", got, m.text())
	}
	if method == "HEAD" {
		return
	}
	var p problem
	if err := json.Unmarshal([]byte(m.body), &p); err != nil {
		t.Fatalf("no JSON: %q: %v", m.body, err)
	}
	if p.Error != word || p.Status != wireStatus(m.line) || p.Title == "" || p.Detail == "" || !slices.Contains(id, "X-Request-ID: "+p.RequestID) {
		t.Errorf("the problem document is %+v, want %s; fields %q", p, word, id)
	}
}

// goesOn checks that the connection takes a further request, and answers it.
func (g *wireGroup) goesOn(t *testing.T, c *wireClient) (arrival wireArrival) {
	t.Helper()
	c.send("GET /next/{n} HTTP/1.1\r\nHost: x\r\n\r\n")
	m, _ := c.receive(t, "GET")
	g.answered(t, &m, "", "")
	g.via(t, &m, "")
	if want := "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"; m.text() != want {
		t.Errorf("the next request is answered with %q, want %q", m.text(), want)
	}
	arrivals := g.endpoint.of(c.number)
	if len(arrivals) == 0 || !strings.HasPrefix(arrivals[len(arrivals)-1].line, "GET /next/") {
		t.Fatal("the next request did not arrive at the endpoint")
	}
	return arrivals[len(arrivals)-1]
}

// via checks that a response which the endpoint sent as out tells the way that it
// came, and takes that out.
func (g *wireGroup) via(t *testing.T, m *wireMessage, out string) {
	t.Helper()
	want := "1.1 tested"
	if strings.HasPrefix(out, "HTTP/1.0") {
		want = "1.0 tested"
	}
	if via := m.take("Via"); !cmp.Equal(via, []string{want}) {
		t.Errorf("Via is %q", via)
	}
}

// finish compares the log and the metrics with what the cases had, and looks for
// requests that arrived late, or belong to no case.
func (g *wireGroup) finish(t *testing.T) {
	t.Helper()
	gatewaytest.WaitFor(t, "no exchange is under way", func() bool { return g.gw.Metric("gateway_active_requests") == 0 })
	gatewaytest.WaitFor(t, "all exchanges are logged", func() bool { return len(g.gw.LogLines()) >= len(g.ended) })
	seen, words := map[string]bool{}, map[string]float64{}
	for _, line := range g.gw.LogLines() {
		id, _ := line["request_id"].(string)
		end, known := g.ended[id]
		switch word, _ := line["error"].(string); {
		case !known || seen[id]:
			t.Errorf("a log line too many: %v", line)
		case line["status"] != float64(end.status) || word != end.word:
			t.Errorf("%s: the log line is %v, want %d %q", end.name, line, end.status, end.word)
		}
		seen[id] = true
	}
	for _, end := range g.ended {
		words[end.word]++
	}
	delete(words, "")
	for word, count := range words {
		if counted := g.gw.Metric("gateway_errors_total", "error", word); counted != count {
			t.Errorf("gateway_errors_total of %s is %v, want %v", word, counted, count)
		}
	}
	if counted := g.gw.Metric("gateway_requests_total"); counted != float64(len(g.ended)) {
		t.Errorf("gateway_requests_total is %v, want %d", counted, len(g.ended))
	}
	for _, arrival := range g.endpoint.of(-1) {
		if arrival.line == "" { // a connection that was given up
			continue
		}
		t.Errorf("a request of no case arrived: %q", arrival.text())
	}
	for number := range g.cases {
		for _, arrival := range g.endpoint.of(number + 1) {
			if strings.Contains(arrival.text(), "smuggled") && !strings.Contains(arrival.body, "smuggled") || strings.HasPrefix(arrival.line, "nonsense") {
				t.Errorf("case %d: %q arrived", number+1, arrival.text())
			}
		}
	}
}
