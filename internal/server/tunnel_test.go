package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

const upgrade = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// upgraded is the head of the answer.
const upgraded = "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Request-ID: id-1\r\n\r\n"

// tunnelled starts a listener whose upgrades reach the endpoint that is
// returned: the other side of the tunnel.
func tunnelled(t *testing.T, edits ...func(*model.Listener)) (f *fixture, endpoint *client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	endpoint = dial(t, listener.Addr())
	side, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { side.Close() })
	f = start(t, func(x *pipeline.Exchange) error {
		x.ID = "id-1"
		x.Response = &message.Response{Status: 101, Tunnel: side.(*net.TCPConn), Fields: message.Fields{{Name: "Sec-WebSocket-Accept", Value: "x"}, {Name: "Bad", Value: "\r\n"}, {Name: "Connection", Value: "upgrade", ID: message.Connection}}}
		return nil
	}, edits...)
	return f, endpoint
}

func TestTunnel(t *testing.T) {
	t.Run("both ways, the client ends first", func(t *testing.T) {
		f, endpoint := tunnelled(t)
		c := f.dial().send(upgrade + "early")
		endpoint.read("early")
		c.read(upgraded)
		endpoint.send("down")
		c.read("down")
		c.send("up")
		endpoint.read("up")
		if status := f.listener.Status(); status.Tunnels != 1 || status.Connections != 1 {
			t.Errorf("%+v", status)
		}
		c.closeWrite()
		if rest := endpoint.rest(); rest != "" {
			t.Errorf("%q", rest)
		}
		endpoint.send("after the end")
		c.read("after the end")
		endpoint.Close()
		c.ends()
		if x := f.next(t); x.Err != nil || x.BytesIn != 7 || x.BytesOut != 17 || x.Response.Status != 101 {
			t.Errorf("%v, %d in, %d out", x.Err, x.BytesIn, x.BytesOut)
		}
		waittest.Until(t, "no tunnel", func() bool { return f.listener.Status().Connections == 0 && f.listener.Status().Tunnels == 0 })
	})
	t.Run("the endpoint ends first", func(t *testing.T) {
		f, endpoint := tunnelled(t)
		c := f.dial().send(upgrade)
		c.read(upgraded)
		endpoint.send("all")
		endpoint.closeWrite()
		if rest := c.rest(); rest != "all" {
			t.Errorf("%q", rest)
		}
		c.send("more")
		endpoint.read("more")
		c.Close()
		endpoint.ends()
		if x := f.next(t); x.Err != nil || x.BytesIn != 4 || x.BytesOut != 3 {
			t.Errorf("%v, %d in, %d out", x.Err, x.BytesIn, x.BytesOut)
		}
	})
	t.Run("the client breaks it", func(t *testing.T) {
		f, endpoint := tunnelled(t)
		c := f.dial().send(upgrade)
		c.read(upgraded)
		reset(t, c)
		endpoint.ends()
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed {
			t.Errorf("%v", x.Err)
		}
	})
	t.Run("the endpoint breaks it", func(t *testing.T) {
		f, endpoint := tunnelled(t)
		c := f.dial().send(upgrade)
		c.read(upgraded)
		reset(t, endpoint)
		c.ends()
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.UpstreamReset {
			t.Errorf("%v", x.Err)
		}
	})
	t.Run("much data", func(t *testing.T) {
		f, endpoint := tunnelled(t)
		c := f.dial().send(upgrade)
		c.read(upgraded)
		data := strings.Repeat("0123456789abcdef", 1<<16)
		go func() {
			_, _ = io.WriteString(c.Conn, data)
			_ = c.Conn.(*net.TCPConn).CloseWrite()
		}()
		go func() { // an echo
			_, _ = io.Copy(endpoint.Conn, endpoint.Conn)
			_ = endpoint.Conn.(*net.TCPConn).CloseWrite()
		}()
		if got := c.rest(); got != data {
			t.Errorf("%d bytes came back", len(got))
		}
		if x := f.next(t); x.Err != nil || x.BytesIn != int64(len(data)) || x.BytesOut != x.BytesIn {
			t.Errorf("%v, %d in, %d out", x.Err, x.BytesIn, x.BytesOut)
		}
	})
	t.Run("half_close makes no difference", func(t *testing.T) {
		f, endpoint := tunnelled(t, halfClose)
		c := f.dial().send(upgrade)
		c.read(upgraded)
		c.closeWrite()
		endpoint.rest()
		endpoint.Close()
		c.ends()
		f.next(t)
	})
}

func TestATunnelOutlivesReloadAndRelease(t *testing.T) {
	f, endpoint := tunnelled(t)
	c := f.dial().send(upgrade)
	c.read(upgraded)
	exchange := func(text string) {
		c.send(text)
		endpoint.read(text)
		endpoint.send(text)
		c.read(text)
	}
	next := *f.model
	next.Timeouts.Idle = time.Second
	f.listener.Serve(&next, nil)
	exchange("after a reload")
	f.listener.Release()
	exchange("after the release")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := f.listener.Shutdown(ctx); err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 connections were ended") {
		t.Errorf("%v", err)
	}
	c.ends()
	endpoint.ends()
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.Overloaded {
		t.Errorf("%v", x.Err)
	}
}

// scriptedTunnel is a tunnel whose other side is not a socket.
type scriptedTunnel struct {
	io.Reader
	io.Writer
	closeWrite error
	closed     chan struct{}
}

func (s *scriptedTunnel) CloseWrite() error { return s.closeWrite }

func (s *scriptedTunnel) Close() error {
	close(s.closed)
	return nil
}

func TestUpgradesThatCannotBe(t *testing.T) {
	tests := []struct {
		name   string
		raw    string
		status int
		want   int
		word   pipeline.Word
	}{
		{"another status", upgrade, 200, 500, pipeline.Internal},
		{"on HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", 101, 502, pipeline.UpstreamProtocol},
		{"before the end of the request", post("Content-Length: 3\r\n", "1"), 101, 502, pipeline.UpstreamProtocol},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tunnel := &scriptedTunnel{closed: make(chan struct{})}
			f := start(t, func(x *pipeline.Exchange) error {
				x.Response = &message.Response{Status: test.status, Tunnel: tunnel}
				return nil
			})
			f.listener.Hurry(time.Second, 50*time.Millisecond, time.Second, time.Second)
			response, body := f.dial().send(test.raw).answer("GET")
			if response.StatusCode != test.want || !strings.Contains(body, string(test.word)) {
				t.Errorf("%d %s", response.StatusCode, body)
			}
			<-tunnel.closed
			if x := f.next(t); x.Err == nil || x.Err.Word != test.word {
				t.Errorf("%v", x.Err)
			}
		})
	}
}

func TestErrorsOfATunnel(t *testing.T) {
	idle := pipeline.NewError(pipeline.UpstreamTimeout, nil)
	tests := []struct {
		name   string
		tunnel scriptedTunnel // without a Reader: one that waits for Close
		word   pipeline.Word
	}{
		{"a word of its own", scriptedTunnel{Reader: errorReader{idle}, Writer: io.Discard}, pipeline.UpstreamTimeout},
		{"writing fails", scriptedTunnel{Writer: errorWriter{io.ErrClosedPipe}}, pipeline.UpstreamReset},
		{"its writing side does not end", scriptedTunnel{Writer: io.Discard, closeWrite: io.ErrClosedPipe}, pipeline.UpstreamReset},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			never, end := io.Pipe()
			if test.tunnel.Reader == nil {
				test.tunnel.Reader = never
			}
			tunnel := &onceTunnel{scriptedTunnel: &test.tunnel, wake: end}
			f := start(t, func(x *pipeline.Exchange) error {
				x.Response = &message.Response{Status: 101, Tunnel: tunnel, Fields: message.Fields{{Name: "Upgrade", Value: "x", ID: message.Upgrade}}}
				return nil
			})
			c := f.dial().send(upgrade)
			c.head("GET")
			if test.tunnel.closeWrite != nil {
				c.closeWrite()
			} else {
				_, _ = io.WriteString(c.Conn, "up") // it may be over already
			}
			if x := f.next(t); x.Err == nil || x.Err.Word != test.word {
				t.Errorf("%v", x.Err)
			}
			c.ends()
		})
	}
}

// Who has said all may be gone when the other goes on: nobody's fault.
func TestATunnelHalfOfWhichIsOver(t *testing.T) {
	tests := []struct {
		name   string
		tunnel scriptedTunnel
		client func(c *client)
	}{
		{"the endpoint", scriptedTunnel{Reader: errorReader{io.EOF}, Writer: errorWriter{io.ErrClosedPipe}}, func(c *client) {
			if rest := c.rest(); rest != "" {
				t.Errorf("%q", rest)
			}
			c.send("up")
		}},
		{"the client", scriptedTunnel{Reader: endless{}, Writer: io.Discard}, func(c *client) {
			c.closeWrite()
			c.Close() // with much unread
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, func(x *pipeline.Exchange) error {
				x.Response = &message.Response{Status: 101, Tunnel: &onceTunnel{scriptedTunnel: &test.tunnel, wake: discardPipe()}}
				return nil
			})
			c := f.dial().send(upgrade)
			c.head("GET")
			test.client(c)
			if x := f.next(t); x.Err != nil && test.name == "the endpoint" {
				t.Errorf("%v", x.Err)
			} else if x.Err != nil && x.Err.Word != pipeline.ClientClosed { // its end and its reset race
				t.Errorf("%v", x.Err)
			}
		})
	}
}

// onceTunnel can be closed more than once, and wakes its reader.
type onceTunnel struct {
	*scriptedTunnel
	wake *io.PipeWriter
}

func (o *onceTunnel) Close() error { return o.wake.CloseWithError(net.ErrClosed) }

type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) { return 0, e.err }

type errorWriter struct{ err error }

func (e errorWriter) Write([]byte) (int, error) { return 0, e.err }

func TestAClientThatIsGoneBeforeTheUpgrade(t *testing.T) {
	tunnel := &scriptedTunnel{Reader: errorReader{io.EOF}, Writer: io.Discard, closed: make(chan struct{})}
	waiting := make(chan struct{})
	f := start(t, func(x *pipeline.Exchange) error {
		close(waiting)
		await(x, x.Context().Done())
		x.Response = &message.Response{Status: 101, Tunnel: tunnel}
		return nil
	})
	c := f.dial().send(upgrade)
	<-waiting
	reset(t, c)
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed {
		t.Errorf("%v", x.Err)
	}
	<-tunnel.closed
}

func TestATunnelWhoseClientStopsReading(t *testing.T) {
	f := start(t, func(x *pipeline.Exchange) error {
		x.Route = routeWithIdle(time.Hour, 50*time.Millisecond)
		x.Response = &message.Response{Status: 101, Tunnel: &scriptedTunnel{Reader: endless{}, Writer: io.Discard, closed: make(chan struct{}, 1)}}
		x.Response.Tunnel = &onceTunnel{scriptedTunnel: x.Response.Tunnel.(*scriptedTunnel), wake: discardPipe()}
		return nil
	})
	c := f.dial().send(upgrade)
	if _, err := bufio.NewReader(c.Conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed || x.BytesOut == 0 {
		t.Errorf("%v after %d bytes", x.Err, x.BytesOut)
	}
}

func discardPipe() *io.PipeWriter {
	_, w := io.Pipe()
	return w
}

// The exchange of a tunnel belongs to goroutines, which may still wait by it.
func TestATunnelThatWaits(t *testing.T) {
	never, end := io.Pipe()
	words := make(chan string)
	f := start(t, func(x *pipeline.Exchange) error {
		inner := &scriptedTunnel{Reader: io.MultiReader(waiting{x, words}, never), Writer: io.Discard}
		x.Response = &message.Response{Status: 101, Tunnel: &onceTunnel{scriptedTunnel: inner, wake: end}}
		return nil
	})
	c := f.dial().send(upgrade)
	c.head("GET")
	words <- "down"
	c.read("down")
	close(words)
	c.Close()
	end.CloseWithError(io.EOF)
	f.next(t)
}

// waiting gives what comes on a channel.
type waiting struct {
	x     *pipeline.Exchange
	words <-chan string
}

func (w waiting) Read(p []byte) (int, error) {
	word, ok := await(w.x, w.words)
	if !ok {
		return 0, io.EOF
	}
	return copy(p, word), nil
}
