package server_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// hint are the fields of an informational response that no socket takes at once,
// if it is long.
func hint(length int) message.Fields {
	return message.Fields{{Name: "Link", Value: strings.Repeat("x", length)}}
}

const longHint = 8 << 20

// readHint reads one, and checks that nothing came between.
func (c *client) readHint(length int) {
	c.Helper()
	c.read("HTTP/1.1 103 Early Hints\r\nLink: ")
	n, err := io.Copy(io.Discard, io.LimitReader(c.r, int64(length)))
	if err != nil || n != int64(length) {
		c.Fatalf("%d bytes, %v", n, err)
	}
	c.read("\r\n\r\n")
}

// One task informs and waits for its client to take it; the other one asks for
// the body meanwhile: one waits for the other.
func TestAskingForABodyWaitsForAnInformationalResponse(t *testing.T) {
	ofEngine(t, "net/http buffers without bound")
	asking := make(chan struct{})
	f := start(t, func(x *pipeline.Exchange) error {
		body := make(chan string, 1)
		inform := make(chan struct{})
		wait := aside(x, func() {
			await(x, inform)
			close(asking)
			all, _ := io.ReadAll(x.Request.Body)
			body <- string(all)
		})
		close(inform)
		x.Informer.Inform(103, hint(longHint))
		wait()
		x.Response = reply(200, <-body)
		return nil
	}, func(m *model.Listener) { m.Timeouts.MinBodyRate = 0 }) // the hint takes its time
	c := f.dial().send(post("Content-Length: 3\r\nExpect: 100-continue\r\n", ""))
	<-asking
	c.afterHint(longHint)
	if response, body := c.send("abc").answer("POST"); body != "abc" || response.Close {
		t.Errorf("%q, closes: %v", body, response.Close)
	}
}

// afterHint reads a hint and a 100 Continue, in any order.
func (c *client) afterHint(length int) {
	c.Helper()
	status, err := c.r.Peek(len("HTTP/1.1 100"))
	if err != nil {
		c.Fatal(err)
	}
	first := strings.HasSuffix(string(status), "100")
	if !first {
		c.readHint(length)
	}
	c.read("HTTP/1.1 100 Continue\r\n\r\n")
	if first {
		c.readHint(length)
	}
}

// The head of the response waits for an informational one that another task is
// about to write, and lets no other pass afterwards.
func TestTheAnswerWaitsForAnInformationalResponse(t *testing.T) {
	ofEngine(t, "net/http buffers without bound")
	underWay := make(chan struct{})
	f := start(t, func(x *pipeline.Exchange) error {
		aside(x, func() {
			x.Informer.Inform(103, hint(longHint))
			x.Informer.Inform(103, hint(1)) // too late, or not
		})
		await(x, underWay)
		x.Response = reply(200, "ok")
		return nil
	})
	c := f.dial().send(get("/"))
	if _, err := c.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	close(underWay)
	c.readHint(longHint)
	for {
		status, err := c.r.Peek(len("HTTP/1.1 200"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(status), "200") {
			break
		}
		c.readHint(1)
	}
	if response, body := c.answer("GET"); body != "ok" || response.Close {
		t.Errorf("%q, closes: %v", body, response.Close)
	}
}

// A client that takes no informational response is gone: whoever waits behind it
// goes on.
func TestAClientThatLeavesAnInformationalResponse(t *testing.T) {
	ofEngine(t, "net/http buffers without bound")
	informing := make(chan struct{})
	read := make(chan error, 1)
	f := start(t, func(x *pipeline.Exchange) error {
		wait := aside(x, func() {
			await(x, informing)
			_, err := io.ReadAll(x.Request.Body)
			read <- err
		})
		defer wait()
		close(informing)
		x.Informer.Inform(103, hint(longHint))
		x.Response = reply(200, "ok")
		return nil
	})
	c := f.dial().send(post("Content-Length: 3\r\nExpect: 100-continue\r\n", ""))
	<-informing
	reset(t, c)
	if err := <-read; err == nil {
		t.Error("the body was read")
	}
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed {
		t.Errorf("%v", x.Err)
	}
}

// An answer that does not ask for the body ends the connection: the client may
// send it, or not.
func TestAnAnswerInsteadOfAskingForTheBody(t *testing.T) {
	for name, serve := range map[string]func(x *pipeline.Exchange) error{
		"a response": text("early"),
		"one that is there": func(x *pipeline.Exchange) error {
			x.Response = &message.Response{Status: 200, Body: message.Text("early"), Length: 5}
			return nil
		},
		"an error": func(*pipeline.Exchange) error { return pipeline.NewError(pipeline.Forbidden, nil) },
		"a stream": func(x *pipeline.Exchange) error {
			x.Response = reply(200, "early")
			x.Response.Length = message.Unknown
			return nil
		},
		"a closed body": func(x *pipeline.Exchange) error {
			if err := x.Request.Body.Close(); err != nil {
				return err
			}
			return text("early")(x)
		},
	} {
		for _, length := range []int{3, 1 << 20} {
			t.Run(fmt.Sprint(name, " ", length), func(t *testing.T) {
				f := start(t, serve)
				f.listener.Hurry(time.Second, 10*patience, time.Second, time.Second) // nothing is waited for
				c := f.dial().send(post(fmt.Sprintf("Content-Length: %d\r\nExpect: 100-continue\r\n", length), ""))
				response, body := c.answer("POST")
				if response.StatusCode == 100 || engine && !response.Close && name != "a stream" || !strings.Contains(body, "early") && !strings.Contains(body, "forbidden") {
					t.Errorf("%d, closes: %v, %s", response.StatusCode, response.Close, body)
				}
				if engine {
					c.send(strings.Repeat("x", length)) // all the same
					c.rest()
				} else {
					c.ends()
				}
				if x := f.next(t); x.BytesIn != 0 {
					t.Errorf("%d bytes in", x.BytesIn)
				}
			})
		}
	}
}

// Other expectations are none of ours, and a request without a body has none.
func TestExpectationsThatAreNone(t *testing.T) {
	ofEngine(t, "net/http refuses some by itself")
	f := start(t, echoHead)
	for _, raw := range []string{
		post("Content-Length: 0\r\nExpect: 100-continue\r\n", ""),
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: something\r\n\r\n",
	} {
		if response, body := f.dial().send(raw).answer("GET"); response.StatusCode != 200 || response.Close || !strings.Contains(body, "Expect=") {
			t.Errorf("%d, closes: %v, %q", response.StatusCode, response.Close, body)
		}
	}
}
