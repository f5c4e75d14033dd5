package transport

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
)

// errDead is the error of a request for a connection that ended before any byte
// of an answer.
var errDead = errors.New("the endpoint closed the connection before it answered")

// connection is a connection to an endpoint.
type connection struct {
	net.Conn
	told func() // once, when it is closed

	closing  sync.Once
	closed   chan struct{} // closed by Close and spoil
	dropping sync.Once
	dropped  chan struct{} // closed by Close
	ending   sync.Once
	ended    chan struct{} // closed once reading has ended
	tunnel   atomic.Bool   // it carries another protocol now
	originOf bool          // the next request line has an absolute target to be cut

	mu     sync.Mutex
	broken bool // reading ended, but not because it was closed here
	turn   *turn
}

// turn is what one attempt does with a connection. All but judged is under the
// connection's lock.
type turn struct {
	connection *connection
	died       func()        // told of an end before any byte of an answer; may be nil
	judged     chan struct{} // closed by judge
	reading    bool          // what comes is the head of the answer
	head       []byte        // what came while reading
	written    bool          // some of the request may have gone out
	dead       bool          // the connection ended without any byte of an answer
}

func newConnection(raw net.Conn, told func()) *connection {
	return &connection{Conn: raw, told: told, closed: make(chan struct{}), dropped: make(chan struct{}), ended: make(chan struct{})}
}

// begin gives the connection to an attempt, before it sends anything. died is
// called, perhaps at once, if the connection ends before any byte of an answer;
// it must not block, and may be nil.
//
// net/http may pass a connection on before the attempt that had it has looked at
// its answer: begin waits for that. Where the connection is of no more use it
// waits for net/http to see so, too; else what is left on it might be taken for
// an answer.
func (c *connection) begin(died func()) *turn {
	before := c.current()
	if before != nil {
		select {
		case <-before.judged:
		case <-c.closed:
		}
	}
	gone := false
	select {
	case <-c.closed:
		gone = true
		<-c.dropped
	default:
	}
	t := &turn{connection: c, died: died, judged: make(chan struct{}), reading: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = t
	if t.dead = gone || c.broken; t.dead && died != nil {
		died()
	}
	return t
}

// reset tells whether reading ended, but not because the connection was closed
// here.
func (c *connection) reset() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

func (c *connection) current() *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

// judge notes that the head of the answer was read, and the connection spoiled
// if it is of no more use.
func (t *turn) judge() {
	c := t.connection
	c.mu.Lock()
	t.reading, t.head = false, nil
	c.mu.Unlock()
	close(t.judged)
}

// fate tells whether the connection ended without any byte of an answer, and
// whether any of the request may have gone out.
func (t *turn) fate() (dead, written bool) {
	t.connection.mu.Lock()
	defer t.connection.mu.Unlock()
	return t.dead, t.written
}

// answered tells whether a byte has come.
func (t *turn) answered() bool {
	t.connection.mu.Lock()
	defer t.connection.mu.Unlock()
	return !t.reading || len(t.head) > 0
}

// options are the values of Connection in the head of the answer. net/http takes
// the field out where close is among them, but it may name fields that must not
// go on (RFC 9110 7.6.1).
func (t *turn) options() []string {
	fields, _ := t.parse()
	return fields["Connection"]
}

// more tells whether something has come behind the head.
func (t *turn) more() bool {
	t.connection.mu.Lock()
	end := bytes.Index(t.head, headEnd)
	whole := end >= 0 && end+len(headEnd) == len(t.head)
	t.connection.mu.Unlock()
	if whole {
		return false
	}
	_, rest := t.parse()
	return rest > 0
}

var headEnd = []byte("\r\n\r\n")

// parse returns the fields of the final head that has come, and how many bytes
// are behind it.
func (t *turn) parse() (fields textproto.MIMEHeader, rest int) {
	t.connection.mu.Lock()
	defer t.connection.mu.Unlock()
	raw := bytes.NewReader(t.head)
	buffer := bufio.NewReader(raw)
	head := textproto.NewReader(buffer)
	for {
		line, err := head.ReadLine()
		fields, _ = head.ReadMIMEHeader() // net/http has read it: no error is new
		_, status, _ := strings.Cut(line, " ")
		if err != nil || !strings.HasPrefix(status, "1") || strings.HasPrefix(status, "101") {
			return fields, buffer.Buffered() + raw.Len()
		}
	}
}

// Read notes what comes, and where the stream ends.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.mu.Lock()
		if c.turn != nil && c.turn.reading && !c.turn.dead {
			c.turn.head = append(c.turn.head, p[:n]...)
		}
		c.mu.Unlock()
	}
	if err != nil {
		c.ending.Do(c.end)
	}
	return n, err
}

func (c *connection) end() {
	defer close(c.ended)
	select {
	case <-c.closed:
		return
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
	if t := c.turn; t != nil && t.reading && len(t.head) == 0 {
		if t.dead = true; t.died != nil {
			t.died() // before net/http learns of it
		}
	}
}

// Write reports a failure only when reading has ended as well: an endpoint may
// answer early and close while the request is still being sent, and its answer
// is worth more than the failure to send the rest. To an endpoint that can no
// longer answer nothing is sent.
func (c *connection) Write(p []byte) (int, error) {
	if c.tunnel.Load() {
		return c.Conn.Write(p)
	}
	if !c.mayWrite() {
		return 0, errDead
	}
	n, err := c.write(p)
	if err != nil {
		select {
		case <-c.ended:
		case <-c.closed:
		}
	}
	return n, err
}

func (c *connection) mayWrite() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn.dead {
		return false
	}
	c.turn.written = true
	return true
}

// absolutePrefix is what net/http puts before a target that begins with two
// slashes; endpoints would read the rest as an authority.
var absolutePrefix = []byte("http:")

func (c *connection) write(p []byte) (int, error) {
	if !c.originOf {
		return c.Conn.Write(p)
	}
	c.originOf = false
	method, rest, ok := bytes.Cut(p, []byte(" "))
	if !ok || !bytes.HasPrefix(rest, absolutePrefix) {
		panic("BUG: a request does not begin with its request line")
	}
	line := append(append(bytes.Clone(method), ' '), rest[len(absolutePrefix):]...)
	n, err := c.Conn.Write(line)
	if n == len(line) {
		n = len(p)
	}
	return n, err
}

// CloseWrite ends the writing side.
func (c *connection) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Close closes the connection; further calls do nothing.
func (c *connection) Close() error {
	err := c.spoil()
	c.dropping.Do(func() { close(c.dropped) })
	return err
}

// spoil closes a connection, on which what follows is no answer to anything,
// under net/http's hands.
func (c *connection) spoil() error {
	var err error
	c.closing.Do(func() {
		close(c.closed)
		err = c.Conn.Close()
		c.told()
	})
	return err
}
