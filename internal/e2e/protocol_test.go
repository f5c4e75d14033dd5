package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// TestProtocols runs every behaviour over every protocol, on one gateway. Reloads
// and its end concern all protocols at once.
func TestProtocols(t *testing.T) {
	p := startPolyglot(t)
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			s := p.voice(t, d)
			s.behaviours(t)
			s.leave(t)
		})
	}
	t.Run("reloads", p.reloads)
	t.Run("the end", p.drains)
}

// behaviours are what a gateway does whatever its clients speak. The code of each
// is one; what differs is in the dialect.
func (s *voice) behaviours(t *testing.T) {
	t.Helper()
	t.Run("routes", s.routes)
	t.Run("rewriting, and answers of the gateway", s.rewrites)
	t.Run("fields of requests", s.forwards)
	t.Run("fields of responses", s.answers)
	t.Run("responses without a body", s.answersWithoutBody)
	t.Run("early hints", s.hints)
	t.Run("trailers", s.trails)
	t.Run("limits of bodies", s.limitsBodies)
	t.Run("limits of headers", s.limitsHeaders)
	t.Run("errors", s.fails)
	t.Run("overload", s.overloads)
	t.Run("responses that break off", s.breaksOff)
	t.Run("the access log and the metrics", s.observes)
	t.Run("talk in both directions", s.talks)
	t.Run("events", s.streamsEvents)
	t.Run("large bodies", s.carriesLargeBodies)
	t.Run("clients that leave", s.noticesLeaving)
	t.Run("many requests at once", s.servesMany)
	t.Run("WebSockets", s.carriesSockets)
}

// voice is a client of a polyglot that speaks one protocol.
type voice struct {
	*polyglot
	dialect
	transport
}

func (p *polyglot) voice(t *testing.T, d dialect) *voice {
	t.Helper()
	s := &voice{p, d, d.pool(t, p)}
	t.Cleanup(func() { hangUp(s.transport) })
	return s
}

// hangUp closes a transport's connections, which have nothing under way.
func hangUp(t transport) {
	if closer, ok := t.(interface{ Close() error }); ok {
		_ = closer.Close() // what is left shows in what goleak finds
		return
	}
	t.CloseIdleConnections()
}

// leave closes the connections, and waits until the gateway has noticed.
func (s *voice) leave(t *testing.T) {
	t.Helper()
	gatewaytest.WaitFor(t, "the gateway has no exchange and no connection left", func() bool {
		hangUp(s.transport) // again: a connection may have come to rest only now
		return s.counted("gateway_active_requests") == 0 && s.counted("gateway_downstream_connections", "listener", s.listener) == 0
	})
}

// request makes a request, which ends with the test.
func (s *voice) request(t *testing.T, a ask) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
	t.Cleanup(cancel)
	r, err := s.draft(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *voice) draft(ctx context.Context, a ask) (*http.Request, error) {
	method, host, body := a.method, a.host, io.Reader(http.NoBody)
	if method == "" {
		method = http.MethodGet
	}
	if host == "" {
		host = "x.test"
	}
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.scheme+"://"+s.Addr(s.listener).String()+a.target, body)
	if err != nil {
		return nil, err
	}
	r.Host = host
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	return r, nil
}

// came is what came of a request.
type came struct {
	reply
	err error
}

// try sends a request over a connection, or a transport's, and reads the response to
// its end.
func try(over http.RoundTripper, r *http.Request) came {
	response, err := over.RoundTrip(r)
	if err != nil {
		return came{err: fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return came{err: fmt.Errorf("%s %s: %d, after %.100q: %w", r.Method, r.URL.Path, response.StatusCode, body, err)}
	}
	return came{reply: reply{response, string(body)}}
}

// begin is try for what the test does not wait for yet.
func begin(over http.RoundTripper, r *http.Request) <-chan came {
	later := make(chan came, 1)
	go func() { later <- try(over, r) }()
	return later
}

// whole returns the response, or fails the test.
func (c came) whole(t *testing.T) reply {
	t.Helper()
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c.reply
}

// do sends a request as a table has it and returns the response, read to its end.
func (s *voice) do(t *testing.T, a ask) reply {
	t.Helper()
	return try(s, s.request(t, a)).whole(t)
}

// send sends a request and returns the head of the response, whose body closes with
// the test.
func (s *voice) send(t *testing.T, r *http.Request) *http.Response {
	t.Helper()
	response, err := s.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	t.Cleanup(func() { response.Body.Close() }) // the test may have read it to its end
	return response
}
