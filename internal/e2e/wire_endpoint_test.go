package e2e

import (
	"bufio"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/internal/gatewaytest"
)

// wireEndpoint is an endpoint that reads requests by the book, keeps what it
// received, and answers a request of a case with bytes of that case, any other
// with 200 and "ok".
type wireEndpoint struct {
	url    string
	closes bool // after every request that is of no script

	mu          sync.Mutex
	connections int
	ended       map[int]bool        // connections that the gateway closed, or this end
	reading     map[int]int         // the case whose body comes on a connection
	arrivals    []wireArrival       // in the order in which they were complete, or cut
	scripts     map[int]*wireScript // of the cases
}

// wireArrival is a request as an endpoint received it, and where.
type wireArrival struct {
	wireMessage
	number     int // of the case that it belongs to; -1: none
	connection int
}

// wireScript is what the endpoint does about the first request of a case.
type wireScript struct {
	early bool   // answer the head, without reading the body
	apart int    // bytes of out that go first; the rest when the gateway has read those
	out   string // what it answers
	later string // what it sends on when it is told to; empty: it does not wait
	end   string // how the connection ends then: "close", "reset"; "": it goes on

	once    sync.Once
	proceed chan struct{} // closed: send later
	sent    chan struct{} // closed when all is sent
	fault   error         // of the script itself; after sent
}

// wireNumber finds the number of a case in a request.
var wireNumber = regexp.MustCompile(`\bn(\d+)\b`)

func newWireEndpoint(t *testing.T) *wireEndpoint {
	t.Helper()
	e := &wireEndpoint{ended: map[int]bool{}, reading: map[int]int{}, scripts: map[int]*wireScript{}}
	e.url = gatewaytest.NewScripted(t, e.serve).URL
	return e
}

func (e *wireEndpoint) serve(conn net.Conn, in *bufio.Reader) {
	e.mu.Lock()
	connection := e.connections
	e.connections++
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.ended[connection] = true
		e.mu.Unlock()
	}()
	for {
		m, err := readWireHead(in)
		if errors.Is(err, io.EOF) {
			return
		}
		script := e.begun(&m, connection)
		if script == nil && wireNames(strings.Join(m.fields, "\n"), "Expect") {
			_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n") // whether it can shows below
		}
		if err == nil && m.line != "" && (script == nil || !script.early) {
			m, err = m.readBody(in, false, false)
		}
		if err != nil {
			m.line = "nonsense: " + err.Error() + ": " + m.line
		}
		e.arrived(m, connection)
		switch {
		case script != nil && script.early:
			script.run(conn)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, in) // a close before would be a reset
			return
		case !m.whole, script != nil && !script.run(conn), script == nil && (wireOK(conn, m.line, e.closes) != nil || e.closes):
			return
		}
	}
}

// wireOK answers a request with 200.
func wireOK(conn net.Conn, line string, closes bool) error {
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	if closes {
		answer = strings.Replace(answer, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
	}
	if strings.HasPrefix(line, "HEAD ") {
		answer = strings.TrimSuffix(answer, "ok")
	}
	_, err := io.WriteString(conn, answer)
	return err
}

// begun notes the head of a request, and returns what to do about it: nil for
// one of no case, and for the further ones of a case, whose path says so.
func (e *wireEndpoint) begun(m *wireMessage, connection int) *wireScript {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading[connection] = wireCase(m)
	if strings.Contains(m.line, "/next/") {
		return nil
	}
	return e.scripts[wireCase(m)]
}

// arrived keeps a request.
func (e *wireEndpoint) arrived(m wireMessage, connection int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.reading, connection)
	e.arrivals = append(e.arrivals, wireArrival{m, wireCase(&m), connection})
}

func wireCase(m *wireMessage) int {
	if match := wireNumber.FindStringSubmatch(m.line + "\n" + strings.Join(m.fields, "\n")); match != nil {
		if number, err := strconv.Atoi(match[1]); err == nil {
			return number
		}
	}
	return -1
}

// prepare has the endpoint answer a case so.
func (e *wireEndpoint) prepare(number int, script *wireScript) {
	script.proceed, script.sent = make(chan struct{}), make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scripts[number] = script
}

// of is what has arrived of a case.
func (e *wireEndpoint) of(number int) (arrivals []wireArrival) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, arrival := range e.arrivals {
		if arrival.number == number {
			arrival.fields = slices.Clone(arrival.fields)
			arrivals = append(arrivals, arrival)
		}
	}
	return arrivals
}

// settled is of, once nothing of the case is on its way any more.
func (e *wireEndpoint) settled(t *testing.T, number int) []wireArrival {
	t.Helper()
	gatewaytest.WaitFor(t, "the requests of the case are over", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, reading := range e.reading {
			if reading == number {
				return false
			}
		}
		return true
	})
	return e.of(number)
}

// hasEnded tells whether a connection is over.
func (e *wireEndpoint) hasEnded(connection int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended[connection]
}

// goOn has the script send what comes later.
func (s *wireScript) goOn() { s.once.Do(func() { close(s.proceed) }) }

// run answers, and tells whether the connection goes on. What cannot be written
// is no matter: the gateway closes where it has seen enough.
func (s *wireScript) run(conn net.Conn) (on bool) {
	defer close(s.sent)
	if s.apart > 0 {
		_, _ = io.WriteString(conn, s.out[:s.apart])
		s.fault = wireTaken(conn)
	}
	_, _ = io.WriteString(conn, s.out[s.apart:])
	if s.later != "" {
		<-s.proceed
		_, _ = io.WriteString(conn, s.later)
	}
	switch s.end {
	case "close":
		return false
	case "reset":
		_ = conn.(*net.TCPConn).SetLinger(0)
		return false
	}
	return true
}
