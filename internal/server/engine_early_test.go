package server_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// early answers while another task reads the body: it has read some of it, and
// is woken by the Close of whoever serves.
type early struct {
	first int // bytes that are read before the answer
	read  chan error
}

func (e *early) serve(x *pipeline.Exchange) error {
	if x.Request.Method == "GET" {
		return text("second")(x)
	}
	begun := make(chan struct{})
	body := x.Request.Body
	wait := aside(x, func() {
		_, err := io.ReadFull(body, make([]byte, e.first))
		close(begun)
		if err == nil {
			_, err = io.Copy(io.Discard, body)
		}
		e.read <- err
	})
	await(x, begun)
	if err := body.Close(); err != nil {
		return err
	}
	wait()
	return text("early")(x)
}

// Close ends a Read that waits, and harms nothing: the rest of a small body is
// thrown away and the connection goes on.
func TestCloseWakesTheReaderOfABody(t *testing.T) {
	ofEngine(t, "there a Read goes on until the end of the exchange")
	e := &early{first: 3, read: make(chan error, 1)}
	f := start(t, e.serve)
	c := f.dial()
	for i := range 50 {
		c.send(post("Content-Length: 6\r\n", "123"))
		if i%2 == 0 {
			c.send("456") // it may come before the Close
		}
		response, body := c.answer("POST")
		if err := <-e.read; body != "early" || response.Close && i%2 > 0 || err == nil && i%2 > 0 {
			t.Fatalf("%d: %q, closes: %v, reading ended with %v", i, body, response.Close, err)
		}
		if i%2 > 0 {
			c.send("456")
		}
		if _, body := c.send(get("/")).answer("GET"); body != "second" {
			t.Fatalf("then came %q", body)
		}
		if x := f.next(t); x.BytesIn != 3 && x.BytesIn != 6 || x.Err != nil {
			t.Errorf("%d bytes in, %v", x.BytesIn, x.Err)
		}
		f.next(t)
	}
}

// Where the rest is large, or of unknown length, the connection says that it
// ends, and the client can read the answer although it goes on sending.
func TestAnEarlyAnswerToALargeBody(t *testing.T) {
	ofEngine(t, "there a Read goes on until the end of the exchange")
	for name, raw := range map[string]string{
		"sized":   post("Content-Length: 10000000\r\n", "123"),
		"chunked": post(chunkedField, "3\r\n123\r\n"),
	} {
		for _, more := range []int{0, 1 << 20} {
			t.Run(fmt.Sprint(name, " ", more), func(t *testing.T) {
				e := &early{first: 3, read: make(chan error, 1)}
				f := start(t, e.serve)
				f.listener.Hurry(time.Second, time.Second, patience, time.Second)
				c := f.dial().send(raw)
				if err := <-e.read; err == nil || errors.Is(err, pipeline.ErrClientGone) {
					t.Errorf("reading ended with %v", err)
				}
				waittest.Until(t, "a parting connection", func() bool { return f.listener.Parting() == 1 })
				c.send(strings.Repeat("x", more))
				if response, body := c.answer("POST"); body != "early" || !response.Close {
					t.Errorf("%q, closes: %v", body, response.Close)
				}
				c.rest()
				if x := f.next(t); x.Err != nil || x.BytesIn != 3 {
					t.Errorf("%v after %d bytes", x.Err, x.BytesIn)
				}
				if status := f.listener.Status(); status.Connections != 1 { // it waits for the client
					t.Errorf("%+v", status)
				}
				c.Close()
				waittest.Until(t, "no connection", func() bool { return f.listener.Status().Connections == 0 })
			})
		}
	}
}

// A connection that lingers does not do so for ever.
func TestLingeringEnds(t *testing.T) {
	f := start(t, func(*pipeline.Exchange) error { return pipeline.NewError(pipeline.NoRoute, nil) })
	f.listener.Hurry(time.Second, time.Second, 50*time.Millisecond, time.Second)
	c := f.dial().send(post("Content-Length: 10000000\r\n", "1"))
	c.answer("POST")
	waittest.Until(t, "no connection", func() bool { return f.listener.Status().Connections == 0 })
}

// The rest of a small body that does not come is not waited for for ever.
func TestARestThatDoesNotCome(t *testing.T) {
	ofEngine(t, "see TestTheRestOfABody")
	e := &early{first: 1, read: make(chan error, 1)}
	f := start(t, e.serve)
	f.listener.Hurry(time.Second, 50*time.Millisecond, 50*time.Millisecond, time.Second)
	c := f.dial().send(post("Content-Length: 3\r\n", "1"))
	if response, body := c.answer("POST"); body != "early" || response.Close {
		t.Errorf("%q, closes: %v", body, response.Close)
	}
	c.rest()
	waittest.Until(t, "no connection", func() bool { return f.listener.Status().Connections == 0 })
}

// What a body gives after its Close, and after its exchange.
func TestReadingAfterTheEnd(t *testing.T) {
	var body io.ReadCloser
	errs := make(chan error, 3)
	f := start(t, func(x *pipeline.Exchange) error {
		body = x.Request.Body
		_, err := body.Read(nil)
		errs <- err
		if err := body.Close(); err != nil {
			return err
		}
		n, err := body.Read(make([]byte, 3))
		if n > 0 || err == nil {
			err = fmt.Errorf("%d bytes", n)
		}
		errs <- err
		if err := body.Close(); err != nil {
			return err
		}
		return text("ok")(x)
	})
	c := f.dial().send(post("Content-Length: 3\r\n", "123"))
	if _, body := c.answer("POST"); body != "ok" {
		t.Errorf("%q", body)
	}
	f.next(t)
	_, err := body.Read(make([]byte, 3))
	errs <- err
	if err := <-errs; err != nil {
		t.Errorf("a read of nothing: %v", err)
	}
	for range 2 {
		if err := <-errs; err == nil || !strings.Contains(err.Error(), "after its exchange or its Close") {
			t.Errorf("%v", err)
		}
	}
}

// A second task that has read the body to its end is no longer there to notice a
// client that leaves.
func TestAClientThatLeavesAfterItsBody(t *testing.T) {
	read := make(chan struct{})
	f := start(t, func(x *pipeline.Exchange) error {
		wait := aside(x, func() {
			if _, err := io.Copy(io.Discard, x.Request.Body); err == nil {
				close(read)
			}
		})
		defer wait()
		return fmt.Errorf("attempt: %w", canceled(x))
	})
	c := f.dial().send(post(chunkedField, "3\r\n123\r\n0\r\n\r\n"))
	<-read
	c.Close()
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed || !errors.Is(x.Err, pipeline.ErrClientGone) || x.Response.Status != pipeline.StatusClientClosed || x.BytesIn != 3 || x.BytesOut != 0 {
		t.Errorf("%v, %d in, %d out", x.Err, x.BytesIn, x.BytesOut)
	}
}

// The rest of a body that another task reads to its end, while the response is
// under way, or over: the next request is served and its client watched.
func TestABodyWhoseEndAndWhoseAnswerRace(t *testing.T) {
	f := start(t, func(x *pipeline.Exchange) error {
		if x.Request.Method == "GET" {
			return pause(x, time.Hour)
		}
		body := x.Request.Body
		aside(x, func() { _, _ = io.Copy(io.Discard, body) })
		x.Response = &message.Response{Status: 200, Body: message.Text("early"), Length: 5}
		return nil
	})
	for range 10 {
		c := f.dial().send(post("Content-Length: 3\r\n", "123"))
		if response, body := c.answer("POST"); body != "early" {
			t.Errorf("%q", body)
		} else if response.Close { // the adapter could not tell that nobody reads
			f.next(t)
			continue
		}
		f.next(t)
		c.send(get("/"))
		c.Close()
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed {
			t.Errorf("%v", x.Err)
		}
	}
}
