package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// soakEndpoint does what the plans of requests say, and looks at each byte.
type soakEndpoint struct {
	t      *testing.T
	url    string
	faults *faults
	open   atomic.Int64 // connections
	served atomic.Int64
	seen   []atomic.Uint32 // by id: how many connections brought the request

	mu        sync.Mutex
	swallowed map[uint64]bool // had come when a connection was closed after another answer
}

func newSoakEndpoint(t *testing.T, faults *faults, ids int) *soakEndpoint {
	t.Helper()
	e := &soakEndpoint{t: t, faults: faults, seen: make([]atomic.Uint32, ids), swallowed: map[uint64]bool{}}
	var connections atomic.Uint64
	e.url = listenTCP(t, func(conn *net.TCPConn) {
		e.open.Add(1)
		defer e.open.Add(-1)
		defer conn.Close()
		e.serve(conn, rand.New(rand.NewPCG(1, connections.Add(1))))
	})
	return e
}

// judge holds answers of 502 that were not planned against what is known of the
// connections that closed, after their end, and returns how many had to be.
func (e *soakEndpoint) judge(doubts []soakDoubt) (excused int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range doubts {
		switch {
		case d.plan.method == http.MethodPost && e.swallowed[d.plan.id]:
		case d.plan.request > replayable(): // what was sent of it is not kept, and a PUT's is like any other's
		case d.plan.method == http.MethodPost && gatewaytest.Engine() == gatewaytest.Standard:
		default:
			e.faults.add("%+v: 502, though the endpoint was to answer (request %s)", d.plan, d.id)
			continue
		}
		excused++
	}
	return excused
}

// ended tells whether an error only says that the other side has left.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (e *soakEndpoint) serve(conn *net.TCPConn, rng *rand.Rand) {
	in := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			if !ended(err) {
				e.faults.add("the endpoint received no request: %v", err)
			}
			return
		}
		plan, err := parsePlan(request.Header.Get("X-Plan"))
		if err != nil || plan.id >= uint64(len(e.seen)) {
			e.faults.add("the endpoint received %s %s with plan %q", request.Method, request.RequestURI, request.Header.Get("X-Plan"))
			return
		}
		plan.method = request.Method
		if n := e.seen[plan.id].Add(1); n > 1 && plan.method == http.MethodPost {
			e.faults.add("%v reached the endpoint %d times", plan.id, n)
		}
		e.served.Add(1)
		if !e.answer(conn, rng, request, plan) {
			return
		}
	}
}

// answer serves one request, and tells whether the connection goes on.
func (e *soakEndpoint) answer(conn *net.TCPConn, rng *rand.Rand, request *http.Request, plan soakPlan) bool {
	if plan.endpoint.where == inHead {
		return e.leave(conn, plan)
	}
	if plan.endpoint.where != early {
		if strings.EqualFold(request.Header.Get("Expect"), "100-continue") {
			if _, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return false
			}
		}
		if plan.endpoint.where == inBody {
			if _, err := verified(request.Body, plan.id, int64(plan.request)/2); errors.Is(err, errForeign) {
				e.faults.add("in the body of request %d: %v", plan.id, err)
			}
			return e.leave(conn, plan)
		}
		n, err := verified(request.Body, plan.id, largest+1)
		switch {
		case errors.Is(err, errForeign):
			e.faults.add("in the body of request %d: %v", plan.id, err)
			return false
		case err != nil && ended(err):
			return false // the gateway gave the request up
		case err != nil || n != int64(plan.request):
			e.faults.add("the body of request %d ended after %d bytes of %d, with %v", plan.id, n, plan.request, err)
			return false
		}
	}
	if plan.endpoint.where == asked {
		return e.leave(conn, plan)
	}
	return e.reply(conn, rng, plan)
}

// reply sends the answer, or as much of it as the plan says.
func (e *soakEndpoint) reply(conn *net.TCPConn, rng *rand.Rand, plan soakPlan) bool {
	var head strings.Builder
	if plan.hints {
		head.WriteString("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
	}
	fmt.Fprintf(&head, "HTTP/1.1 200 OK\r\nX-Id: %d\r\n", plan.id)
	switch plan.framing {
	case chunked:
		head.WriteString("Transfer-Encoding: chunked\r\n")
	case sized:
		fmt.Fprintf(&head, "Content-Length: %d\r\n", plan.answer)
	case closing:
	}
	if plan.framing == closing || plan.endpoint.where == early {
		head.WriteString("Connection: close\r\n")
	}
	head.WriteString("\r\n")
	text := head.String()
	if plan.endpoint.where == inAnswer {
		text = text[:len(text)-2-rng.IntN(len(text)-2)]
	}
	out := bufio.NewWriter(conn)
	_, _ = out.WriteString(text) // its error is the flush's
	if plan.method != http.MethodHead && plan.endpoint.where != inAnswer {
		length, whole := plan.answer, true
		if plan.endpoint.where == inReply {
			length, whole = length/2, false
		}
		if err := writeStamped(out, rng, plan.id|answerStream, length, plan.framing == chunked, whole); err != nil {
			return false
		}
	}
	if out.Flush() != nil {
		return false
	}
	if plan.framing == closing && plan.endpoint.where == stay {
		return false
	}
	if plan.endpoint.where == inReply && (plan.method == http.MethodHead || plan.framing == sized && plan.answer == 0) {
		plan.endpoint.where = after // it is whole, so the connection may be used again
	}
	return plan.endpoint.where == stay || e.leave(conn, plan)
}

var planID = regexp.MustCompile(`(?m)^X-Plan: (\d+ [^\r]+)\r$`)

// leave closes the connection as the plan says. It returns false.
func (e *soakEndpoint) leave(conn *net.TCPConn, plan soakPlan) bool {
	switch {
	case plan.endpoint.where == after:
		p := part(e.t, conn, !plan.endpoint.reset)
		if found := planID.FindSubmatch(p.swallowed); found != nil {
			if next, err := parsePlan(string(found[1])); err == nil && next.id < uint64(len(e.seen)) {
				e.mu.Lock()
				e.swallowed[next.id] = true
				e.mu.Unlock()
				if e.seen[next.id].Add(1) > 1 && bytes.HasPrefix(p.swallowed, []byte(http.MethodPost)) {
					e.faults.add("%d reached the endpoint again, on a connection that closed (by a reset: %t)", next.id, plan.endpoint.reset)
				}
			}
		}
	case plan.endpoint.where == early && !plan.endpoint.reset:
		_ = conn.CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(gatewaytest.Patience))
		_, _ = io.Copy(io.Discard, conn) // so that the gateway can read the answer
	case plan.endpoint.reset:
		_ = conn.SetLinger(0)
	}
	return false
}
