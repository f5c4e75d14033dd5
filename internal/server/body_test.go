package server_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// swallow reads the body of the request and answers with its length.
func swallow(x *pipeline.Exchange) error {
	n, err := io.Copy(io.Discard, x.Request.Body)
	if err != nil {
		return fmt.Errorf("attempt: %w", err)
	}
	x.Response = reply(200, fmt.Sprint(n))
	return nil
}

func bodyLimit(limit int64) func(*model.Listener) {
	return func(m *model.Listener) { m.Limits.Body = limit }
}

func halfClose(m *model.Listener) { m.HalfClose = true }

func post(fields, body string) string {
	return "POST /p HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + body
}

const chunkedField = "Transfer-Encoding: chunked\r\n"

func TestBodies(t *testing.T) {
	tests := []struct {
		name   string
		edit   func(*model.Listener)
		serve  func(x *pipeline.Exchange) error
		raw    string
		end    bool // the client closes its writing side
		status int
		body   string // or a part of it
		word   pipeline.Word
		in     int64
		closes bool
	}{
		{name: "at the limit", edit: bodyLimit(5), raw: post("Content-Length: 5\r\n", "12345"), status: 200, body: "5", in: 5},
		{name: "at the limit in chunks", edit: bodyLimit(5), raw: post(chunkedField, "3\r\n123\r\n2\r\n45\r\n0\r\n\r\n"), status: 200, body: "5", in: 5},
		{name: "past the limit", edit: bodyLimit(5), raw: post("Content-Length: 6\r\n", "123456"), status: 413, word: pipeline.BodyTooLarge, closes: true},
		{name: "past the limit in chunks", edit: bodyLimit(5), raw: post(chunkedField, "3\r\n123\r\n3\r\n456\r\n0\r\n\r\n"), status: 413, word: pipeline.BodyTooLarge, in: 5, closes: true},
		{name: "a chunk size that is none", raw: post(chunkedField, "3\r\n123\r\nx\r\n456\r\n0\r\n\r\n"), status: 400, word: pipeline.BadRequest, in: 3, closes: true},
		{name: "a chunk without its end", raw: post(chunkedField, "3\r\n1234\r\n0\r\n\r\n"), status: 400, word: pipeline.BadRequest, in: 3, closes: true},
		{name: "a trailer that is none", raw: post(chunkedField, "3\r\n123\r\n0\r\nbad trailer\r\n\r\n"), status: 400, word: pipeline.BadRequest, in: 3, closes: true},
		{name: "the body's error wins over what the handler makes of it", raw: post(chunkedField, "x\r\n"), status: 400, word: pipeline.BadRequest, closes: true, serve: func(x *pipeline.Exchange) error {
			_, err := io.Copy(io.Discard, x.Request.Body)
			return pipeline.NewError(pipeline.UpstreamReset, err)
		}},
		{name: "slow", raw: post("Content-Length: 100\r\n", "1"), status: 408, word: pipeline.RequestTimeout, in: 1, closes: true},
		{name: "slow in chunks", raw: post(chunkedField, "3\r\n123\r\n2\r\n4"), status: 408, word: pipeline.RequestTimeout, in: 4, closes: true},
		{name: "half a body, half_close", edit: halfClose, raw: post("Content-Length: 6\r\n", "123"), end: true, status: 400, body: `"bad_request"`, word: pipeline.BadRequest, in: 3, closes: true},
		{name: "half a trailer, half_close", edit: halfClose, raw: post(chunkedField, "3\r\n123\r\n0\r\nX-T: "), end: true, status: 400, body: `"bad_request"`, word: pipeline.BadRequest, in: 3, closes: true},
		{name: "a whole body, half_close", edit: halfClose, raw: post("Content-Length: 3\r\n", "123"), end: true, status: 200, body: "3", in: 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			edit, serve := test.edit, test.serve
			if edit == nil {
				edit = func(*model.Listener) {}
			}
			if serve == nil {
				serve = swallow
			}
			f := start(t, serve, edit)
			f.listener.Hurry(100*time.Millisecond, time.Second, time.Second, time.Second)
			c := f.dial().send(test.raw)
			if test.end {
				c.closeWrite()
			}
			response, body := c.answer("POST")
			x := f.next(t)
			if response.StatusCode != test.status || !strings.Contains(body, test.body) || !strings.Contains(body, string(test.word)) {
				t.Errorf("%d %s", response.StatusCode, body)
			}
			if x.BytesIn != test.in {
				t.Errorf("%d bytes in, want %d", x.BytesIn, test.in)
			}
			if test.word != "" && (x.Err == nil || x.Err.Word != test.word || !x.Err.Close) || test.word == "" && x.Err != nil {
				t.Errorf("it ended with %v", x.Err)
			}
			if response.Close != test.closes {
				t.Errorf("closes: %v", response.Close)
			}
			if test.closes {
				c.ends()
			}
		})
	}
}

func TestAClientThatLeavesWithinItsBody(t *testing.T) {
	for name, raw := range map[string]string{
		"with a length":   post("Content-Length: 6\r\n", "123"),
		"in chunks":       post(chunkedField, "6\r\n123"),
		"between chunks":  post(chunkedField, "3\r\n123\r\n"),
		"in the trailers": post(chunkedField, "3\r\n123\r\n0\r\nX-T"),
	} {
		t.Run(name, func(t *testing.T) {
			var failed error
			f := start(t, func(x *pipeline.Exchange) error {
				_, failed = io.Copy(io.Discard, x.Request.Body)
				return pipeline.NewError(pipeline.UpstreamReset, failed)
			})
			f.dial().send(raw).Close()
			x := f.next(t)
			var e *pipeline.Error
			if !errors.As(failed, &e) || e.Word != pipeline.ClientClosed || !errors.Is(failed, pipeline.ErrClientGone) {
				t.Errorf("reading failed with %v", failed)
			}
			if x.Err == nil || x.Err.Word != pipeline.ClientClosed || x.BytesIn != 3 {
				t.Errorf("it ended with %v after %d bytes", x.Err, x.BytesIn)
			}
		})
	}
}

func TestExpect(t *testing.T) {
	const head = "Content-Length: 3\r\nExpect: 100-continue\r\n"
	t.Run("the first read asks for the body", func(t *testing.T) {
		proceed := make(chan struct{})
		f := start(t, func(x *pipeline.Exchange) error {
			await(x, proceed)
			return swallow(x)
		})
		c := f.dial().send(post(head, ""))
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.r.ReadByte(); !isTimeout(err) {
			t.Fatalf("before the first read: %v", err)
		}
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		close(proceed)
		c.read("HTTP/1.1 100 Continue\r\n\r\n")
		if response, body := c.send("abc").answer("POST"); body != "3" || response.Close {
			t.Errorf("%q, closes: %v", body, response.Close)
		}
	})
	t.Run("a refusal does not", func(t *testing.T) {
		f := start(t, swallow, bodyLimit(2))
		c := f.dial().send(post(head, ""))
		c.read("HTTP/1.1 413 ")
		f.next(t)
	})
	t.Run("nor does an answer without reading", func(t *testing.T) {
		f := start(t, func(*pipeline.Exchange) error { return pipeline.NewError(pipeline.NoRoute, nil) })
		c := f.dial().send(post(head, ""))
		if response, _ := c.answer("POST"); response.StatusCode != 404 || !response.Close {
			t.Errorf("%d, closes: %v", response.StatusCode, response.Close)
		}
		c.ends()
	})
	t.Run("an informational response may come before", func(t *testing.T) {
		f := start(t, func(x *pipeline.Exchange) error {
			x.Informer.Inform(103, nil)
			return swallow(x)
		})
		c := f.dial().send(post(head, ""))
		c.read("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
		if _, body := c.send("abc").answer("POST"); body != "3" {
			t.Errorf("%q", body)
		}
	})
	t.Run("the response has begun", func(t *testing.T) {
		f := start(t, func(x *pipeline.Exchange) error {
			x.Response = &message.Response{Status: 200, Body: x.Request.Body, Length: 3}
			return nil
		})
		c := f.dial().send(post(head, ""))
		c.head("POST")
		c.send("abc").read("abc")
		f.next(t)
	})
	t.Run("HTTP/1.0 has no such thing", func(t *testing.T) {
		f := start(t, swallow)
		c := f.dial().send("POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")
		if response, body := c.answer("POST"); response.StatusCode != 200 || body != "3" {
			t.Errorf("%d %q", response.StatusCode, body)
		}
		f.next(t)
	})
}

func TestResponseAndRequestStreamAtOnce(t *testing.T) {
	f := start(t, func(x *pipeline.Exchange) error {
		x.Response = &message.Response{Status: 200, Body: x.Request.Body, Length: message.Unknown}
		return nil
	})
	c := f.dial().send(post(chunkedField, ""))
	response := c.head("POST")
	got := make([]byte, 5)
	for i := range 3 {
		part := fmt.Sprintf("part%d", i)
		c.send("5\r\n" + part + "\r\n")
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != part {
			t.Fatalf("%q, %v", got, err)
		}
	}
	c.send("0\r\n\r\n")
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Fatalf("%q, %v", rest, err)
	}
	if x := f.next(t); x.BytesIn != 15 || x.BytesOut != 15 || x.Err != nil {
		t.Errorf("%d in, %d out, %v", x.BytesIn, x.BytesOut, x.Err)
	}
}

// An upstream that answers early leaves somebody reading the body.
func TestAnEarlyResponse(t *testing.T) {
	reading, read := make(chan struct{}), make(chan error, 1)
	f := start(t, func(x *pipeline.Exchange) error {
		body := x.Request.Body
		aside(x, func() {
			first := make([]byte, 3)
			_, err := io.ReadFull(body, first)
			close(reading)
			if err == nil {
				_, err = io.ReadAll(body)
			}
			read <- err
		})
		await(x, reading)
		x.Response = reply(200, "early")
		return nil
	})
	c := f.dial().send(post("Content-Length: 6\r\n", "123"))
	if _, body := c.answer("POST"); body != "early" {
		t.Errorf("%q", body)
	}
	x := f.next(t)
	if err := <-read; err == nil || x.BytesIn != 3 || x.Err != nil {
		t.Errorf("reading ended with %v after %d bytes, the exchange with %v", err, x.BytesIn, x.Err)
	}
	c.ends()
}

func TestTheRestOfABody(t *testing.T) {
	const large = 1 << 20
	ignore := text("ignored")
	refuse := func(x *pipeline.Exchange) error {
		x.Request.Body.Close()
		return pipeline.NewError(pipeline.NoRoute, nil)
	}
	stream := func(x *pipeline.Exchange) error {
		x.Response = reply(200, "ignored")
		x.Response.Length = message.Unknown
		return nil
	}
	there := func(x *pipeline.Exchange) error {
		x.Response = &message.Response{Status: 200, Body: message.Text("ignored"), Length: 7}
		return nil
	}
	// The engine says that the connection ends, where it does not know that the
	// rest is small, unless the response streams.
	tests := []struct {
		name     string
		serve    func(x *pipeline.Exchange) error
		raw      string
		goesOn   bool
		announce bool
	}{
		{"small, ignored", ignore, post("Content-Length: 3\r\n", "123"), true, false},
		{"small in chunks, ignored", ignore, post(chunkedField, "3\r\n123\r\n0\r\n\r\n"), !engine, engine},
		{"small in chunks, a stream", stream, post(chunkedField, "3\r\n123\r\n0\r\n\r\n"), true, false},
		{"small in chunks, the answer is there", there, post(chunkedField, "3\r\n123\r\n0\r\n\r\n"), true, false},
		{"small, refused", refuse, post("Content-Length: 3\r\n", "123"), true, false},
		{"large, ignored", ignore, post(fmt.Sprintf("Content-Length: %d\r\n", large), strings.Repeat("x", large)), false, engine},
		{"large, refused", refuse, post(fmt.Sprintf("Content-Length: %d\r\n", large), strings.Repeat("x", large)), false, true},
		{"large in chunks, a stream", stream, post(chunkedField, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", large, strings.Repeat("x", large))), false, false},
		{"large, a stream", stream, post(fmt.Sprintf("Content-Length: %d\r\n", large), strings.Repeat("x", large)), false, false},
		{"large in chunks, ignored", ignore, post(chunkedField, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", large, strings.Repeat("x", large))), false, engine},
		{"it never comes", ignore, post("Content-Length: 3\r\n", "1"), false, false},
		{"it is malformed, and hides a request", ignore, post(chunkedField, "3\r\n123"+get("/hidden")), false, engine},
		{"it hides a request, and the connection ends", refuse, post(fmt.Sprintf("Content-Length: %d\r\n", large), get("/hidden")), false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, func(x *pipeline.Exchange) error {
				if x.Request.Method == "GET" {
					x.Response = reply(200, "second")
					return nil
				}
				return test.serve(x)
			})
			f.listener.Hurry(time.Second, 50*time.Millisecond, time.Second, time.Second)
			c := f.dial()
			sent := make(chan struct{})
			go func() { // a client that reads only after it has sent all
				defer close(sent)
				_, _ = io.WriteString(c.Conn, test.raw)
			}()
			<-sent
			response, _ := c.answer("POST")
			if response.Close != test.announce {
				t.Errorf("announced: %v", response.Close)
			}
			x := f.next(t)
			if x.BytesIn != 0 || x.Err != nil && x.Err.Word != pipeline.NoRoute {
				t.Errorf("%d bytes in, %v", x.BytesIn, x.Err)
			}
			if !test.goesOn {
				c.ends()
				return
			}
			if _, body := c.send(get("/")).answer("GET"); body != "second" {
				t.Errorf("%q", body)
			}
		})
	}
}

func TestHalfClose(t *testing.T) {
	t.Run("serve", func(t *testing.T) {
		f := start(t, func(x *pipeline.Exchange) error {
			if err := pause(x, 300*time.Millisecond); err != nil { // long enough for the context to end
				return err
			}
			x.Response = reply(200, "served")
			return nil
		}, halfClose)
		c := f.dial().send(get("/1") + get("/2"))
		c.closeWrite()
		for range 2 {
			if _, body := c.answer("GET"); body != "served" {
				t.Errorf("%q", body)
			}
		}
		c.ends()
	})
	t.Run("cancel", func(t *testing.T) {
		f := start(t, canceled)
		c := f.dial().send(get("/"))
		c.closeWrite()
		c.ends()
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed {
			t.Errorf("it ended with %v", x.Err)
		}
	})
	t.Run("a broken connection ends the exchange all the same", func(t *testing.T) {
		waiting := make(chan struct{})
		f := start(t, func(x *pipeline.Exchange) error {
			close(waiting)
			return canceled(x)
		}, halfClose)
		c := f.dial().send(get("/"))
		<-waiting
		reset(t, c)
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed {
			t.Errorf("it ended with %v", x.Err)
		}
	})
}
