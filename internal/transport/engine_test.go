package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// watched holds attempts to the time-outs of a route.
type watched struct {
	pipeline.Transport
	watch *pipeline.Watch
}

func (w watched) RoundTrip(ctx context.Context, a *pipeline.Attempt) error {
	a.Watch = w.watch
	return w.Transport.RoundTrip(ctx, a)
}

func watch(transport pipeline.Transport, limits model.RouteTimeouts) watched {
	w := watched{transport, new(pipeline.Watch)}
	w.watch.Begin(limits, time.Now())
	return w
}

func TestNamesAreResolved(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint := scripted(t, answering(ok))
		_, port, _ := net.SplitHostPort(endpoint.Address)
		endpoint.Address = "localhost:" + port
		var c counts
		transport := open(t, endpoint, setup{observer: c.observer(), timeouts: model.AttemptTimeouts{Connect: 10 * time.Second}})
		for range 2 {
			if _, body := ask(t, transport, get("/")); body != "ok" {
				t.Errorf("got %q", body)
			}
		}
		if got := c.String(); got != "opened 1, reused 1, closed 0" {
			t.Error(got)
		}
		endpoint.Address = "nowhere.invalid:80"
		if e := wantError(t, fails(t.Context(), t, open(t, endpoint, setup{}), get("/")), pipeline.UpstreamConnect); !e.Unsent {
			t.Errorf("got %+v", e)
		}
	})
}

// The end of a context that comes late meets nobody else's attempt.
func TestLateEndOfAContext(t *testing.T) {
	engines(t, func(t *bed) {
		transport := open(t, scripted(t, answering(ok)), setup{})
		for range 300 {
			ctx, cancel := context.WithCancelCause(t.Context())
			response, err := trip(ctx, transport, get("/"), nil)
			if err != nil {
				t.Fatal(err)
			}
			go cancel(errOver)
			if _, err := io.ReadAll(response.Body); err != nil && !errors.Is(err, errOver) {
				t.Fatal(err)
			}
			ask(t, transport, get("/"))
		}
	})
}

// An engine that stops ends what is under way.
func TestStopEndsAttempts(t *testing.T) {
	for name, request := range map[string]func(body io.Reader) *message.Request{
		"waiting for a head": func(io.Reader) *message.Request { return get("/") },
		"sending a body":     func(body io.Reader) *message.Request { return post(body, message.Unknown) },
	} {
		t.Run(name, func(t *testing.T) {
			driver, err := newLoops(1, discard)
			if err != nil {
				t.Fatal(err)
			}
			defer driver.Stop()
			came := make(chan bool, 1)
			endpoint := scripted(t, func(p *peer) {
				p.head()
				came <- true
				_, _ = io.Copy(io.Discard, p)
			})
			own := driver.Executors()[0]
			transport := open(&bed{t, NewEngine(driver.Executors(), startGoroutines(t)), own}, endpoint, setup{})
			body, client := io.Pipe()
			defer client.Close()
			done := make(chan error, 1)
			go func() { _, err := trip(t.Context(), transport, request(body), nil); done <- err }()
			waittest.Receive(t, "a request", came)
			driver.Stop()
			if err := waittest.Receive(t, "the end of the attempt", done); err == nil {
				t.Error("no error")
			}
		})
	}
}
