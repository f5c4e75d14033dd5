package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/gatewaytest"
)

// errEnough ends a flood that the connection bears.
var errEnough = errors.New("that is enough")

// noGoAway stands for a connection that was not told to end.
const noGoAway = http2.ErrCode(1 << 31)

// frameClient is a client that writes what frames it likes, and notes what comes.
type frameClient struct {
	*http2.Framer
	conn net.Conn
	out  *bufio.Writer
	text bytes.Buffer
	code *hpack.Encoder
	read sync.WaitGroup

	mu    sync.Mutex
	moved sync.Cond
	gone  http2.ErrCode
	ended bool
	heard map[string]int // statuses, and RST_STREAM
}

// frame connects, and begins HTTP/2. It returns nil after an error, so that it
// may be called from any goroutine.
func (g *flooded) frame(t *testing.T, listener string, deaf bool) *frameClient {
	t.Helper()
	conn, err := net.DialTimeout("tcp", g.addresses[listener], gatewaytest.Patience)
	if err == nil && listener == "websecure" {
		conn = tls.Client(conn, &tls.Config{RootCAs: g.roots, ServerName: siteHost, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	c := &frameClient{conn: conn, out: bufio.NewWriterSize(conn, 8<<10), gone: noGoAway, heard: map[string]int{}}
	c.moved.L = &c.mu
	c.code = hpack.NewEncoder(&c.text)
	c.Framer = http2.NewFramer(c.out, conn)
	c.AllowIllegalWrites = true
	if err := errors.Join(conn.SetDeadline(time.Now().Add(gatewaytest.Patience)), c.begin()); err != nil {
		conn.Close()
		t.Error(err)
		return nil
	}
	if !deaf {
		c.read.Go(c.listen)
	}
	return c
}

func (c *frameClient) begin() error {
	if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
		return err
	}
	if err := c.WriteSettings(); err != nil {
		return err
	}
	return c.flush()
}

func (c *frameClient) flush() error { return c.out.Flush() }

// listen notes what comes until the connection ends.
func (c *frameClient) listen() {
	table := hpack.NewDecoder(4096, nil)
	for {
		frame, err := c.ReadFrame()
		c.mu.Lock()
		switch f := frame.(type) {
		case *http2.GoAwayFrame:
			c.gone = f.ErrCode
		case *http2.RSTStreamFrame:
			c.heard["RST_STREAM"]++
		case *http2.HeadersFrame:
			if fields, err := table.DecodeFull(f.HeaderBlockFragment()); err == nil && len(fields) > 0 {
				c.heard[fields[0].Value]++
			}
		}
		c.ended = err != nil
		c.moved.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// wait waits until something holds, or the connection ends.
func (c *frameClient) wait(holds func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !holds() && !c.ended {
		c.moved.Wait()
	}
	return holds()
}

// hears waits for so many answers of a kind.
func (c *frameClient) hears(t *testing.T, what string, n int) {
	t.Helper()
	if !c.wait(func() bool { return c.heard[what] >= n }) {
		t.Errorf("the connection ended with %v; heard %v, want %d times %s", c.gone, c.heard, n, what)
	}
}

// over waits for the end of the connection, which the gateway has to bring about.
func (c *frameClient) over(t *testing.T) {
	t.Helper()
	began := time.Now()
	c.read.Wait()
	if time.Since(began) > gatewaytest.Patience/2 {
		t.Error("the connection does not end")
	}
}

// isOver tells whether the connection has ended, as far as was read.
func (c *frameClient) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// away is the code of GOAWAY, if any came.
func (c *frameClient) away() http2.ErrCode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

func (c *frameClient) close() {
	c.conn.Close()
	c.read.Wait()
}

// block is the header block of a request.
func (c *frameClient) block(method, path string) []byte {
	return c.fields(":method", method, ":scheme", "http", ":authority", siteHost, ":path", path)
}

// fields is a block of names and values that are not to be indexed.
func (c *frameClient) fields(all ...string) []byte {
	c.text.Reset()
	for i := 0; i < len(all); i += 2 {
		_ = c.code.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1], Sensitive: true}) // into a buffer
	}
	return bytes.Clone(c.text.Bytes())
}

// indexed is a field that goes into the other side's table.
func (c *frameClient) indexed(name, value string) []byte {
	c.text.Reset()
	_ = c.code.WriteField(hpack.HeaderField{Name: name, Value: value}) // into a buffer
	return bytes.Clone(c.text.Bytes())
}
