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
	"sluice/internal/waittest"
)

// inChunks is a body in chunks of a size, with trailer lines.
func inChunks(body string, size int, trailer string) string {
	var b strings.Builder
	for body != "" {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n" + trailer + "\r\n"
}

// A body is the same in whatever pieces it comes and is read.
func TestBodiesInPieces(t *testing.T) {
	body := strings.Repeat("0123456789abcdefg", 8<<10) // more than any buffer
	bodies := map[string]string{
		"sized":        post(fmt.Sprintf("Content-Length: %d\r\n", len(body)), body),
		"large chunks": post(chunkedField, inChunks(body, 100_000, "X-Sum: 1\r\nX-Sum: 2\r\n")),
		"chunks":       post(chunkedField, inChunks(body, 1000, "X-Sum: 1\r\nX-Sum: 2\r\n")),
		"small chunks": post(chunkedField, inChunks(body, 3, "X-Sum: 1\r\nX-Sum: 2\r\n")),
	}
	for name, raw := range bodies {
		for _, piece := range []int{7, 4099, 1 << 20} {
			t.Run(fmt.Sprint(name, " ", piece), func(t *testing.T) {
				var failed error
				f := start(t, func(x *pipeline.Exchange) error {
					buffer := make([]byte, piece)
					var got strings.Builder
					for {
						n, err := x.Request.Body.Read(buffer)
						got.Write(buffer[:n])
						if errors.Is(err, io.EOF) {
							break
						} else if err != nil {
							return err
						}
					}
					if got.String() != body {
						failed = fmt.Errorf("%d bytes", got.Len())
					}
					if n, err := x.Request.Body.Read(buffer); n != 0 || !errors.Is(err, io.EOF) {
						failed = fmt.Errorf("after the end: %d bytes, %w", n, err)
					}
					sums := ""
					if x.Request.Length == message.Unknown {
						for sum := range x.Request.Trailer().Values("x-sum") {
							sums += sum
						}
					} else {
						sums = "12"
					}
					x.Response = reply(200, sums)
					return nil
				})
				c := f.dial()
				for range 2 {
					go func() { _, _ = io.WriteString(c.Conn, raw) }()
					if response, sums := c.answer("POST"); sums != "12" || response.Close {
						t.Errorf("%q, closes: %v", sums, response.Close)
					}
					if x := f.next(t); failed != nil || x.BytesIn != int64(len(body)) {
						t.Errorf("%v, %d bytes in", failed, x.BytesIn)
					}
				}
			})
		}
	}
}

// A body that is cut at every byte, its trailer too.
func TestABodyThatComesInParts(t *testing.T) {
	f := start(t, func(x *pipeline.Exchange) error {
		all, err := io.ReadAll(x.Request.Body)
		if err != nil {
			return err
		}
		sum, _ := x.Request.Trailer().Find("X-Sum")
		x.Response = reply(200, string(all)+sum)
		return nil
	})
	body := "5;a=b\r\nhello\r\n00c\r\n, my world..\r\n0;x\r\nX-Sum: !\r\n\r\n"
	c := f.dial()
	for i := range len(body) {
		c.send(post(chunkedField, body[:i]))
		if i%4 == 0 {
			waittest.Until(t, "an empty socket", func() bool { return f.listener.Pending() == 0 })
		}
		if _, got := c.send(body[i:]).answer("POST"); got != "hello, my world..!" {
			t.Fatalf("cut at %d: %q", i, got)
		}
	}
}

// The trailer counts towards the limit of the head, the payload does not.
func TestTrailerLimits(t *testing.T) {
	ofEngine(t, "net/http has bounds of its own")
	const limit = 1 << 10
	head := post(chunkedField, "")
	for excess, status := range map[int]int{0: 200, 1: 431} {
		f := start(t, swallow, func(m *model.Listener) { m.Limits.HeaderBytes = limit })
		left := limit - len(head) - len("X: \r\n") + excess
		c := f.dial().send(head + inChunks(strings.Repeat("x", 10*limit), 100, "X: "+strings.Repeat("y", left)+"\r\n"))
		if response, body := c.answer("POST"); response.StatusCode != status || response.Close != (status != 200) {
			t.Errorf("%d more: %d %s", excess, response.StatusCode, body)
		}
		if x := f.next(t); status == 431 && (x.Err == nil || x.Err.Word != pipeline.HeaderTooLarge) {
			t.Errorf("%v", x.Err)
		}
	}
}

// Buffered is what is there of a body, and never waits.
func TestWhatIsThereOfABody(t *testing.T) {
	ofEngine(t, "net/http does not tell")
	seen := make(chan [3]int, 1)
	f := start(t, func(x *pipeline.Exchange) error {
		body := x.Request.Body
		three := [3]int{message.Buffered(body)}
		if _, err := io.ReadFull(body, make([]byte, 2)); err != nil {
			return err
		}
		three[1] = message.Buffered(body)
		if err := body.Close(); err != nil {
			return err
		}
		three[2] = message.Buffered(body)
		seen <- three
		x.Response = reply(200, "")
		return nil
	})
	for raw, want := range map[string][3]int{
		post("Content-Length: 5\r\n", "12345") + get("/"): {5, 3, 0},
		post("Content-Length: 9\r\n", "123"):              {3, 1, 0},
		post(chunkedField, "3\r\n123\r\n0\r\n\r\n"):       {0, 0, 0},
	} {
		c := f.dial().send(raw)
		if got := <-seen; got != want {
			t.Errorf("%q: %v, want %v", raw, got, want)
		}
		reset(t, c)
	}
}

// A body that comes, but slowly, stalls in the end: the client is told, and so
// is the log.
func TestABodyThatStalls(t *testing.T) {
	f := start(t, swallow, func(m *model.Listener) { m.Timeouts.MinBodyRate = 1000 })
	f.listener.Hurry(200*time.Millisecond, time.Second, time.Second, time.Second)
	c := f.dial().send(post("Content-Length: 1000\r\n", strings.Repeat("x", 100))) // earns 0.1 s
	if response, body := c.answer("POST"); response.StatusCode != 408 || !response.Close || !strings.Contains(body, `"request_timeout"`) {
		t.Errorf("%d, closes: %v, %s", response.StatusCode, response.Close, body)
	}
	c.ends()
	x := f.next(t)
	if x.Err == nil || x.Err.Word != pipeline.RequestTimeout || x.BytesIn != 100 || !strings.Contains(x.Err.Error(), "slower than min_body_rate, 1000 bytes a second") {
		t.Errorf("%v after %d bytes", x.Err, x.BytesIn)
	}
}

// Nobody waits for a body that nobody reads: its sender may be as slow as it
// likes.
func TestASlowBodyThatNobodyWaitsFor(t *testing.T) {
	const grace = 200 * time.Millisecond
	waited, sent := make(chan struct{}), make(chan struct{})
	f := start(t, func(x *pipeline.Exchange) error {
		if err := pause(x, grace+grace/10); err != nil {
			return err
		}
		close(waited)
		await(x, sent)
		return swallow(x)
	}, func(m *model.Listener) { m.Timeouts.MinBodyRate = 1 << 20 })
	f.listener.Hurry(grace, time.Second, time.Second, time.Second)
	c := f.dial().send(post("Content-Length: 4\r\n", ""))
	<-waited
	c.send("1234")
	close(sent)
	if response, body := c.answer("POST"); response.StatusCode != 200 || body != "4" {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}
