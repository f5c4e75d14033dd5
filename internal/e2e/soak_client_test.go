package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/gatewaytest"
)

// faults keeps what went wrong; after some the run ends.
type faults struct {
	mu   sync.Mutex
	list []string
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

func (f *faults) enough() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.list) >= 10
}

// soakDoubt is a 502 that was not planned. Whether it may be is known once the
// endpoint has told what its closing connections swallowed.
type soakDoubt struct {
	plan soakPlan
	id   string // of the request, in the gateway's log
}

// soakCount is what the clients have seen.
type soakCount struct {
	mu     sync.Mutex
	doubts []soakDoubt

	whole    atomic.Int64 // answers that came as planned
	left     atomic.Int64 // exchanges that the client broke off
	broken   atomic.Int64 // answers that the endpoint broke off
	refused  atomic.Int64 // 502 for what the endpoint broke off
	torn     atomic.Int64 // requests behind an answer that was over before its own request
	dropped  atomic.Int64 // pipelined requests behind an answer that ended the connection
	bytesIn  atomic.Int64 // of answers' bodies
	bytesOut atomic.Int64 // of requests' bodies
}

func (c *soakCount) doubt(d soakDoubt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubts = append(c.doubts, d)
}

// soakClient sends exchanges over one connection at a time.
type soakClient struct {
	address string
	faults  *faults
	count   *soakCount
	rng     *rand.Rand
	conn    *net.TCPConn
	in      *bufio.Reader
	answers int      // that came on the connection
	before  soakPlan // what was answered last
	torn    bool     // its answer, of no length, was over before its request: the connection may end
}

func (c *soakClient) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// drainable is how much more of a request's body a gateway reads once the answer
// is over, so that the connection goes on.
const drainable = 256 << 10

// leave closes the connection the way a client leaves.
func (c *soakClient) leave(how leaving) {
	if how.reset {
		_ = c.conn.SetLinger(0)
	}
	c.close()
	c.count.left.Add(1)
}

// round sends some exchanges, one or a pipeline of several, and takes the
// answers.
func (c *soakClient) round(plans []soakPlan) error {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.address, gatewaytest.Patience)
		if err != nil {
			return err
		}
		c.conn, c.in, c.answers, c.torn = conn.(*net.TCPConn), bufio.NewReader(conn), 0, false
	}
	conn := c.conn
	if err := conn.SetDeadline(time.Now().Add(gatewaytest.Patience)); err != nil {
		return err
	}
	proceed := make(chan bool, 1) // whether the body is wanted, for who waits for 100
	written := make(chan struct{})
	writing := rand.New(rand.NewPCG(plans[0].id, 2))
	go func() {
		defer close(written)
		c.write(conn, writing, plans, proceed)
	}()
	err := c.read(plans, proceed)
	close(proceed)
	if c.conn == nil {
		conn.Close() // else the writing might wait
	}
	<-written
	return err
}

// write sends the requests. That it cannot shows in the reading.
func (c *soakClient) write(conn net.Conn, rng *rand.Rand, plans []soakPlan, proceed <-chan bool) {
	out := bufio.NewWriterSize(conn, 16<<10)
	for i := range plans {
		plan := &plans[i]
		head := plan.head()
		if plan.client.where == inHead {
			head = head[:1+rng.IntN(len(head)-2)]
		}
		_, _ = out.WriteString(head) // its error is the flush's
		if plan.client.where == inHead {
			break
		}
		if plan.expect {
			if out.Flush() != nil || !<-proceed {
				return
			}
		}
		length, whole := plan.request, true
		if plan.client.where == inBody {
			length, whole = length/2, false
		}
		if writeStamped(out, rng, plan.id, length, plan.chunked, whole) != nil {
			return
		}
		c.count.bytesOut.Add(int64(length))
	}
	_ = out.Flush()
}

// head is the head of a planned request.
func (p *soakPlan) head() string {
	var text strings.Builder
	version, folder := "1.1", "many"
	if p.old {
		version = "1.0"
	}
	if p.few {
		folder = "few"
	}
	fmt.Fprintf(&text, "%s /%s/%d HTTP/%s\r\nHost: x.test\r\nX-Plan: %s\r\n", p.method, folder, p.id, version, p)
	switch {
	case p.last && !p.old:
		text.WriteString("Connection: close\r\n")
	case !p.last && p.old:
		text.WriteString("Connection: keep-alive\r\n")
	}
	switch {
	case p.chunked:
		text.WriteString("Transfer-Encoding: chunked\r\n")
	case p.request > 0 || p.method == http.MethodPost || p.method == http.MethodPut:
		fmt.Fprintf(&text, "Content-Length: %d\r\n", p.request)
	}
	if p.expect {
		text.WriteString("Expect: 100-continue\r\n")
	}
	text.WriteString("\r\n")
	return text.String()
}

// read takes the answers in order, until one ends the connection.
func (c *soakClient) read(plans []soakPlan, proceed chan<- bool) error {
	for i := range plans {
		plan := &plans[i]
		if w := plan.client.where; w == inHead || w == inBody || w == asked {
			c.leave(plan.client)
			return nil
		}
		goesOn, err := c.answer(plan, proceed)
		if err != nil {
			if c.answers > 0 {
				err = fmt.Errorf("%w; the connection has had %d answers, the last to %+v", err, c.answers, c.before)
			}
			return fmt.Errorf("%+v: %w", *plan, err)
		}
		if !goesOn {
			c.close()
			c.count.dropped.Add(int64(len(plans) - 1 - i))
			return nil
		}
		c.answers++
		c.before = *plan
	}
	return nil
}

// answer takes one answer and holds it to its plan. It tells whether the
// connection goes on.
func (c *soakClient) answer(plan *soakPlan, proceed chan<- bool) (goesOn bool, err error) {
	var response *http.Response
	for {
		response, err = http.ReadResponse(c.in, &http.Request{Method: plan.method})
		if err != nil {
			return false, c.unanswered(plan, err)
		}
		if response.StatusCode >= 200 {
			break
		}
		if response.StatusCode == http.StatusContinue && plan.expect {
			select {
			case proceed <- true:
			default:
				return false, errors.New("a second 100 came")
			}
		}
	}
	defer response.Body.Close()
	c.torn = false
	if response.StatusCode == http.StatusBadGateway {
		if _, err := io.Copy(io.Discard, response.Body); err != nil && !ended(err) {
			return false, err
		}
		if plan.endpoint.where != stay && plan.endpoint.where != after {
			c.count.refused.Add(1)
		} else {
			c.count.doubt(soakDoubt{*plan, response.Header.Get("X-Request-Id")})
		}
		return !response.Close && !plan.expect, nil
	}
	if id := response.Header.Get("X-Id"); response.StatusCode != http.StatusOK || id != strconv.FormatUint(plan.id, 10) {
		return false, fmt.Errorf("status %d, answer to request %q", response.StatusCode, id)
	}
	if plan.endpoint.where == inHead || plan.endpoint.where == asked || plan.endpoint.where == inAnswer {
		return false, fmt.Errorf("status %d, though the endpoint did not answer", response.StatusCode)
	}
	most := int64(largest) + 1
	if plan.client.where == inReply {
		most = int64(plan.answer) / 2
	}
	n, err := verified(response.Body, plan.id|answerStream, most)
	c.count.bytesIn.Add(n)
	switch cut := err != nil; {
	case cut && !ended(err):
		return false, err
	case plan.client.where == inReply:
		c.leave(plan.client)
		return false, nil
	default:
		return c.ending(plan, response, n, cut)
	}
}

// ending judges how the body of an answer ended, after n bytes: well, or cut.
func (c *soakClient) ending(plan *soakPlan, response *http.Response, n int64, cut bool) (goesOn bool, err error) {
	want := int64(plan.answer)
	if plan.method == http.MethodHead {
		want = 0
	}
	switch {
	case cut && plan.endpoint.where != inReply && plan.endpoint.where != early:
		return false, fmt.Errorf("the answer is cut after %d bytes", n)
	case cut:
		c.count.broken.Add(1)
		return false, nil
	case plan.endpoint.where == inReply && plan.method != http.MethodHead && (plan.framing != closing || plan.endpoint.reset) && response.ContentLength < 0 && len(response.TransferEncoding) == 0:
		// The end of the connection is the end of the body: that it was broken
		// off shows only if the connection was.
		c.count.broken.Add(1)
		return false, nil
	case plan.endpoint.where == inReply && plan.framing == closing && !plan.endpoint.reset && n == want/2:
		c.count.broken.Add(1) // nobody can know that more was to come
		return !response.Close, nil
	case n != want:
		return false, fmt.Errorf("the answer has %d bytes, and ends well", n)
	case plan.endpoint.where == inReply && plan.framing == chunked && plan.method != http.MethodHead:
		return false, errors.New("the answer ends well, though its last chunk never came")
	}
	c.count.whole.Add(1)
	c.torn = plan.endpoint.where == early && response.ContentLength < 0 && plan.request > drainable
	return !response.Close && !plan.last && !plan.expect, nil
}

// unanswered judges a connection that ended without an answer.
func (c *soakClient) unanswered(plan *soakPlan, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) || !ended(err):
		return err
	case c.answers > 0 && gatewaytest.Engine() == gatewaytest.Standard:
		// After an exchange that failed net/http may close without a word.
		c.count.dropped.Add(1)
		return nil
	case c.answers > 0 && c.torn:
		// That too much of the body was to come was not known when the answer
		// began, and could not be told any more at its end.
		c.count.torn.Add(1)
		return nil
	case plan.endpoint.where == stay || plan.endpoint.where == after:
		return fmt.Errorf("the connection ended without an answer: %w", err)
	case plan.request == 0:
		return fmt.Errorf("the connection ended without an answer, though all was sent: %w", err)
	}
	c.count.broken.Add(1) // the answer was lost behind what the client still sent
	return nil
}
