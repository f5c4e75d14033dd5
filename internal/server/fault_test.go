package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/waittest"
)

// wicked panics when it is closed.
type wicked struct {
	io.Reader
	io.Writer
}

func (wicked) Close() error      { panic("a close") }
func (wicked) CloseWrite() error { return nil }

// A response whose Close panics ends its exchange, exactly once, and leaves
// nothing of it.
func TestClosesThatPanic(t *testing.T) {
	waiting := make(chan struct{}, 2)
	failing := func(status int, err error) func(x *pipeline.Exchange) error {
		return func(x *pipeline.Exchange) error {
			x.Response = &message.Response{Status: status, Body: wicked{Reader: strings.NewReader("")}, Length: message.Unknown}
			return err
		}
	}
	for name, test := range map[string]struct {
		serve  func(x *pipeline.Exchange) error
		raw    string
		status int // 0: the client is gone
	}{
		"a response left behind": {failing(200, io.ErrNoProgress), get("/"), 500},
		"one of no status":       {failing(0, nil), get("/"), 500},
		"one that was aborted":   {func(x *pipeline.Exchange) error { _ = failing(200, nil)(x); panic(http.ErrAbortHandler) }, get("/"), 500},
		"a tunnel that cannot be": {func(x *pipeline.Exchange) error {
			waiting <- struct{}{}
			await(x, x.Context().Done())
			x.Response = &message.Response{Status: 101, Tunnel: wicked{strings.NewReader(""), io.Discard}}
			return nil
		}, upgrade, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, test.serve)
			c := f.dial().send(test.raw)
			switch {
			case test.status == 0:
				select {
				case <-waiting:
				case <-time.After(patience):
					t.Fatal("it is not served")
				}
				reset(t, c)
			case !engine && name == "one that was aborted":
				c.ends()
			default:
				if response, _ := c.answer("GET"); response.StatusCode != test.status {
					t.Errorf("%d", response.StatusCode)
				}
			}
			if x := f.next(t); x.Err == nil {
				t.Error("it ended without an error")
			}
			waittest.Until(t, "a log line", func() bool { return strings.Contains(f.log.String(), "a close") })
			c.Close()
			waittest.Until(t, "no connection", func() bool { return f.listener.Status().Connections == 0 })
		})
	}
}

// Who counts connections may panic.
func TestCountingMayPanic(t *testing.T) {
	f := startWith(t, server.Options{Connections: func(string, int) { panic("no metric") }}, text("ok"))
	for range 3 {
		c := f.dial().send(get("/"))
		if _, body := c.answer("GET"); body != "ok" {
			t.Errorf("%q", body)
		}
		c.Close()
	}
	waittest.Until(t, "no connection", func() bool { return f.listener.Status().Connections == 0 })
	waittest.Until(t, "its log lines", func() bool { return strings.Count(f.log.String(), "no metric") == 6 })
}
