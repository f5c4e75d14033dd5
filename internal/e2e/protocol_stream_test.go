package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"sluice/internal/gatewaytest"
)

// chat is an exchange in which both sides speak in turn.
type chat struct {
	to   *io.PipeWriter
	from io.ReadCloser
}

func (s *voice) chat(t *testing.T, over http.RoundTripper) *chat {
	t.Helper()
	body, to := io.Pipe()
	t.Cleanup(func() { to.Close() })
	r := s.request(t, ask{method: http.MethodPost, target: "/streams/talk"})
	r.Body, r.ContentLength = body, -1
	response, err := over.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return &chat{to, response.Body}
}

// turn says a word and hears the answer.
func (c *chat) turn(t *testing.T, word string) {
	t.Helper()
	say(t, c.to, word)
	hear(t, c.from, word+"!")
}

// end says that no more comes, which ends the answer.
func (c *chat) end(t *testing.T) {
	t.Helper()
	c.to.Close()
	if rest, err := io.ReadAll(c.from); err != nil || len(rest) > 0 {
		t.Errorf("at last came %q, %v", rest, err)
	}
}

func (s *voice) talks(t *testing.T) {
	c := s.chat(t, s)
	for _, word := range []string{"one", "two", "three"} {
		c.turn(t, word)
	}
	c.end(t)
}

// events listens to an event stream.
func (s *voice) events(t *testing.T) *listened {
	t.Helper()
	response := s.send(t, s.request(t, ask{target: "/streams/events"})) //nolint:bodyclose // send sees to that
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%d of %s", response.StatusCode, kind)
	}
	lines := bufio.NewScanner(response.Body)
	return listen("the events over "+s.name, func() (int, error) {
		for lines.Scan() {
			if number, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return strconv.Atoi(number)
			}
		}
		return 0, fmt.Errorf("the response ended: %w", lines.Err())
	})
}

func (s *voice) streamsEvents(t *testing.T) {
	var events *listened
	t.Run("each comes at once", func(t *testing.T) {
		events = s.events(t)
		events.advances(t, "its beginning")
		events.advances(t, "more")
	})
	<-events.done // the test's end closed the response
	gatewaytest.WaitFor(t, "the exchange is over", func() bool { return s.counted("gateway_active_requests") == 0 })
}

func (s *voice) carriesLargeBodies(t *testing.T) {
	const size = 3 << 20
	want, _ := sum(t, newContent(7, size))
	for _, length := range []int64{size, -1} {
		r := s.request(t, ask{method: http.MethodPut, target: "/bodies/sum"})
		r.Body, r.ContentLength = io.NopCloser(newContent(7, size)), length
		answer := try(s, r).whole(t)
		if answer.StatusCode != http.StatusOK || answer.body != fmt.Sprintf("PUT %d %s", size, want) {
			t.Errorf("the endpoint says %d %q, want %s", answer.StatusCode, answer.body, want)
		}
		if line := s.LogLine(answer.Header.Get("X-Request-Id")); line["bytes_in"] != float64(size) {
			t.Errorf("the log line is %v", line)
		}
		asked := "/bodies/file?size=" + strconv.Itoa(size)
		if length > 0 {
			asked += "&length=told"
		}
		response := s.send(t, s.request(t, ask{target: asked})) //nolint:bodyclose // send sees to that
		if sha, n := sum(t, response.Body); sha != want || n != size || response.ContentLength != length {
			t.Errorf("%d bytes of %d came, of sum %s, want %s", n, response.ContentLength, sha, want)
		}
		if line := s.LogLine(response.Header.Get("X-Request-Id")); line["bytes_out"] != float64(size) || line["error"] != "" && line["error"] != nil {
			t.Errorf("the log line is %v", line)
		}
	}
}

// noticesLeaving: the endpoint's request ends with the client.
func (s *voice) noticesLeaving(t *testing.T) {
	for _, test := range []struct {
		name, target string
		upload       bool
		begun        string  // of the answer, when it leaves
		status       float64 // in the log
	}{
		{name: "while it waits", target: "/streams/hold", status: 499},
		{name: "in an upload", target: "/streams/hold", upload: true, status: 499},
		{name: "in a download", target: "/streams/hold?begin", begun: "begun ", status: 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r := s.request(t, ask{target: test.target}).WithContext(ctx)
			if test.upload {
				body, to := io.Pipe()
				context.AfterFunc(ctx, func() { to.CloseWithError(ctx.Err()) })
				r.Method, r.Body, r.ContentLength = http.MethodPost, body, 10
				go func() { _, _ = io.WriteString(to, "half") }() // the endpoint tells if it did not come
			}
			begun, left := make(chan string, 1), make(chan error, 1)
			go func() {
				response, err := s.RoundTrip(r)
				if err == nil {
					text := make([]byte, len(test.begun))
					_, _ = io.ReadFull(response.Body, text) // what is missing shows
					begun <- string(text)
					_, err = io.ReadAll(response.Body)
					response.Body.Close()
				}
				left <- err
			}()
			h := await(t, "the endpoint's request", s.held)
			if test.begun != "" {
				if text := await(t, "the beginning of the answer", begun); text != test.begun {
					t.Errorf("the answer begins with %q", text)
				}
			}
			leave()
			if err := await(t, "the client", left); err == nil {
				t.Error("it got a whole response")
			}
			await(t, "the end of the endpoint's request", h.gone)
			if line := s.LogLine(h.id); line["status"] != test.status || line["error"] != "client_closed" || line["protocol"] != s.protocol {
				t.Errorf("the log line is %v", line)
			}
		})
	}
	if e := s.do(t, ask{target: "/echo/after"}).echo(t); e.Target != "/echo/after" {
		t.Errorf("then the endpoint was asked for %s", e.Target)
	}
}

func (s *voice) servesMany(t *testing.T) {
	const clients, each = 20, 5
	ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
	defer cancel()
	before := s.counted("gateway_requests_total", "route", "crowd", "status", "200")
	var running sync.WaitGroup
	for client := range clients {
		running.Go(func() {
			for n := range each {
				body := strings.Repeat(fmt.Sprintf("%d of %d; ", n, client), 1+n*300)
				target := fmt.Sprintf("/echo/%d/%d", client, n)
				r, err := s.draft(ctx, ask{method: http.MethodPost, target: "/crowd" + target, body: body})
				if err != nil {
					t.Error(err)
					return
				}
				var e gatewaytest.Echo
				if c := try(s, r); c.err != nil || c.StatusCode != http.StatusOK || json.Unmarshal([]byte(c.body), &e) != nil || e.Body != body || e.Target != target {
					t.Errorf("request %d of client %d got the answer to %q, %v", n, client, e.Target, c.err)
				}
			}
		})
	}
	running.Wait()
	gatewaytest.WaitFor(t, "all are counted", func() bool {
		return s.counted("gateway_requests_total", "route", "crowd", "status", "200") == before+clients*each
	})
}

// socket is a WebSocket to the feed.
type socket struct {
	*websocket.Conn
	*listened
	client transport
	head   http.Header
	echoes chan string
}

func (s *voice) socket(t *testing.T) *socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*gatewaytest.Patience)
	client := s.upgrade(s.polyglot)
	t.Cleanup(client.CloseIdleConnections)
	conn, response, err := websocket.Dial(ctx, s.scheme+"://"+s.Addr(s.listener).String()+"/streams/socket", &websocket.DialOptions{HTTPClient: &http.Client{Transport: client}}) //nolint:bodyclose // the library keeps it
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = conn.CloseNow() // the test may have closed it
	})
	w := &socket{Conn: conn, client: client, head: response.Header, echoes: make(chan string, 100)}
	w.listened = listen("the WebSocket over "+s.name, func() (int, error) {
		for {
			_, text, err := conn.Read(ctx)
			if err != nil {
				return 0, err
			}
			if echo, ok := strings.CutPrefix(string(text), "echo "); ok {
				w.echoes <- echo
				continue
			}
			return strconv.Atoi(string(text))
		}
	})
	return w
}

// turn says something, which comes back.
func (w *socket) turn(t *testing.T, text string) {
	t.Helper()
	if err := w.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if echo := await(t, "what comes back", w.echoes); echo != text {
		t.Errorf("%.50q came back, want %.50q", echo, text)
	}
}

func (s *voice) carriesSockets(t *testing.T) {
	if !s.sockets {
		t.Skip("the library has no extended CONNECT for servers of HTTP/3") // and clients ask by HTTP/1.1 then
	}
	w := s.socket(t)
	for _, text := range []string{"one", strings.Repeat("long ", 5000), ""} {
		w.turn(t, text)
	}
	w.advances(t, "some talk")
	if err := w.Close(websocket.StatusNormalClosure, "enough"); err != nil {
		t.Errorf("it closes with %v", err)
	}
	<-w.done
	line := s.LogLine(w.head.Get("X-Request-Id"))
	if in, _ := line["bytes_in"].(float64); in < 25_000 || line["route"] != "streams" || line["protocol"] != s.protocol || line["status"] != 101.0 || line["error"] != nil && line["error"] != "" {
		t.Errorf("the log line is %v", line)
	}
}
