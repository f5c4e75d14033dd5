package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// pacer is a client that sends at times that are fixed before, and when it is late at
// once, whatever it is answered.
type pacer struct {
	user, path  string
	connections int
	at          func(n int) time.Duration // when it sends the nth request
}

// evenly are the times of so many requests a second.
func evenly(rate int) func(n int) time.Duration {
	return func(n int) time.Duration { return time.Duration(n) * time.Second / time.Duration(rate) }
}

// bursts are the times of so many requests at once, again and again.
func bursts(size int, every time.Duration) func(n int) time.Duration {
	return func(n int) time.Duration { return time.Duration(n/size) * every }
}

// answers are how many answers there were, by status.
type answers struct {
	mu    sync.Mutex
	count map[int]int
}

func (a *answers) add(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count[status]++
}

// begin has the pacer send until the time of a request is past length, or stop is
// closed. group waits until all is answered.
func (c *pacer) begin(t *testing.T, gw *gatewaytest.Gateway, length time.Duration, stop <-chan struct{}, group *sync.WaitGroup, all *answers) {
	t.Helper()
	began := time.Now()
	for i := range c.connections {
		conn := gw.Dial("web")
		if err := conn.SetDeadline(began.Add(length + gatewaytest.Patience)); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			in := bufio.NewReader(conn)
			for n := i; c.at(n) < length; n += c.connections {
				select {
				case <-stop:
					return
				case <-time.After(time.Until(began.Add(c.at(n)))):
				}
				status, err := c.once(conn, in)
				if err != nil {
					t.Errorf("request %d of the client %s: %v", n, c.user, err)
					return
				}
				all.add(status)
			}
		})
	}
}

func (c *pacer) once(out io.Writer, in *bufio.Reader) (status int, err error) {
	if _, err := fmt.Fprintf(out, "GET %s HTTP/1.1\r\nHost: x.test\r\nX-User: %s\r\n\r\n", c.path, c.user); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
