package external_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"

	"sluice/internal/pipeline"
)

// held is a service that answers when it is let, and tells when it is asked.
type held struct {
	url   string
	asked chan struct{} // one for each question
	left  chan struct{} // one for each that nobody waits for any more
	let   chan struct{} // one answers one, closed answers all
	count atomic.Int32
}

func hold(t testing.TB, answer http.HandlerFunc) *held {
	t.Helper()
	h := &held{asked: make(chan struct{}, 100), left: make(chan struct{}, 100), let: make(chan struct{})}
	h.url = decider(t, func(w http.ResponseWriter, r *http.Request) {
		h.count.Add(1)
		h.asked <- struct{}{}
		select {
		case <-h.let:
			answer(w, r)
		case <-r.Context().Done():
			h.left <- struct{}{}
		}
	})
	return h
}

// outcome is what became of an exchange.
type outcome struct {
	status int
	user   string // that the upstream is told
	err    error
}

// crowd serves exchanges that are alike, at the same time.
type crowd struct {
	t        testing.TB
	serve    func(x *pipeline.Exchange) outcome
	outcomes chan outcome
	over     sync.WaitGroup
}

func newCrowd(t testing.TB, m pipeline.Middleware) *crowd {
	t.Helper()
	c := &crowd{t: t, outcomes: make(chan outcome, 100)}
	c.serve = func(x *pipeline.Exchange) outcome {
		reached, err := serve(m, x)
		switch {
		case err != nil:
			return outcome{err: err}
		case reached != nil:
			return outcome{status: 200, user: all(reached.fields, "X-User")}
		}
		return outcome{status: x.Response.Status}
	}
	t.Cleanup(c.over.Wait)
	return c
}

func (c *crowd) ask(ctx context.Context) { c.begin(asked(ctx, "GET /", "Authorization: good")) }

func (c *crowd) begin(x *pipeline.Exchange) {
	c.over.Go(func() { c.outcomes <- c.serve(x) })
}

func (c *crowd) next() outcome {
	c.t.Helper()
	select {
	case o := <-c.outcomes:
		return o
	case <-time.After(time.Minute):
		c.t.Fatal("nothing became of an exchange")
		return outcome{}
	}
}

func wait(t testing.TB, what string, of <-chan struct{}) {
	t.Helper()
	select {
	case <-of:
	case <-time.After(time.Minute):
		t.Fatal(what + " did not happen")
	}
}

// TestOneQuestion: what misses at the same time is asked once.
func TestOneQuestion(t *testing.T) {
	h := hold(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-User", "ann") })
	b := newBed(t)
	m, _ := b.build(`{http: {url: "` + h.url + `", response_headers: [X-User]}, timeout: 1m, cache: {ttl: 1h}}`)
	c := newCrowd(t, m)
	c.ask(t.Context())
	wait(t, "a question", h.asked)
	for range 20 {
		c.ask(t.Context())
	}
	other, _ := b.build(`{http: {url: "` + h.url + `", response_headers: [X-User]}, timeout: 1m, cache: {ttl: 1h}}`)
	after := newCrowd(t, other) // a reload that changes nothing
	after.ask(t.Context())
	close(h.let)
	for range 21 {
		if o := c.next(); o != (outcome{200, "ann", nil}) {
			t.Error(o)
		}
	}
	if o := after.next(); o != (outcome{200, "ann", nil}) {
		t.Error(o)
	}
	if n := h.count.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestOneCall is the same by gRPC.
func TestOneCall(t *testing.T) {
	var count atomic.Int32
	begun, let := make(chan struct{}, 100), make(chan struct{})
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		count.Add(1)
		begun <- struct{}{}
		<-let
		return &authv3.CheckResponse{Status: code(codes.PermissionDenied)}, nil
	})
	m, _ := newBed(t).build(`{grpc: {address: "` + address + `"}, timeout: 1m, cache: {ttl: 1h, key: [header:Authorization]}}`)
	c := newCrowd(t, m)
	c.ask(t.Context())
	wait(t, "a question", begun)
	for range 10 {
		c.ask(t.Context())
	}
	c.begin(asked(t.Context(), "GET /", "Authorization: other"))
	wait(t, "another question", begun)
	close(let)
	for range 12 {
		if o := c.next(); o.status != 403 || o.err != nil {
			t.Error(o)
		}
	}
	if n := count.Load(); n != 2 {
		t.Errorf("asked %d times about two", n)
	}
}

// TestOneLeaves: who leaves, be it the one who began it, fails nobody else.
func TestOneLeaves(t *testing.T) {
	h := hold(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-User", "ann") })
	m, _ := newBed(t).build(`{http: {url: "` + h.url + `", response_headers: [X-User]}, timeout: 1m, cache: {ttl: 1h}}`)
	c := newCrowd(t, m)
	first, leave := context.WithCancelCause(t.Context())
	c.ask(first)
	wait(t, "a question", h.asked)
	short := asked(t.Context(), "GET /", "Authorization: good")
	short.Until = time.Now().Add(10 * time.Millisecond) // a call whose client waits no longer
	c.begin(short)
	if o := c.next(); word(o.err) != pipeline.AuthUnavailable {
		t.Error(o)
	}
	c.ask(t.Context())
	leave(pipeline.ErrClientGone)
	if o := c.next(); !errors.Is(o.err, pipeline.ErrClientGone) {
		t.Error(o)
	}
	close(h.let)
	if o := c.next(); o != (outcome{200, "ann", nil}) {
		t.Error(o)
	}
}

// TestAllLeave: a question that nobody waits for ends, and the next one is asked anew.
func TestAllLeave(t *testing.T) {
	h := hold(t, func(http.ResponseWriter, *http.Request) {})
	b := newBed(t)
	m, _ := b.build(`{http: {url: "` + h.url + `"}, timeout: 1m, cache: {ttl: 1h}}`)
	c := newCrowd(t, m)
	ctx, leave := context.WithCancelCause(t.Context())
	c.ask(ctx)
	wait(t, "a question", h.asked)
	c.ask(ctx)
	leave(pipeline.ErrClientGone)
	for range 2 {
		if o := c.next(); !errors.Is(o.err, pipeline.ErrClientGone) {
			t.Error(o)
		}
	}
	wait(t, "the end of the question", h.left)
	close(h.let)
	c.ask(t.Context())
	if o := c.next(); o.status != 200 || o.err != nil {
		t.Error(o)
	}
	if b.log.String() != "" {
		t.Errorf("clients that leave are no failure of the service: %s", b.log.String())
	}
}

// TestFailureIsNotKept: those who waited share it, the next one asks anew, and the log has
// it once.
func TestFailureIsNotKept(t *testing.T) {
	var good atomic.Bool
	h := hold(t, func(http.ResponseWriter, *http.Request) {
		if !good.Load() {
			panic(http.ErrAbortHandler)
		}
	})
	b := newBed(t)
	m, _ := b.build(`{http: {url: "` + h.url + `"}, timeout: 1m, cache: {ttl: 1h, key: [method]}}`)
	c := newCrowd(t, m)
	c.ask(t.Context())
	wait(t, "a question", h.asked)
	for range 5 {
		c.ask(t.Context())
	}
	h.let <- struct{}{}
	if o := c.next(); word(o.err) != pipeline.AuthUnavailable {
		t.Error(o)
	}
	good.Store(true)
	close(h.let)
	for range 5 { // they waited, or came too late for that and have asked
		if o := c.next(); o.status != 200 && word(o.err) != pipeline.AuthUnavailable {
			t.Error(o)
		}
	}
	c.ask(t.Context())
	if o := c.next(); o.status != 200 {
		t.Error(o)
	}
	if n := strings.Count(b.log.String(), "cannot be asked"); n != 1 {
		t.Errorf("the log has it %d times", n)
	}
}

// TestAnswersOfOne: what is for one client alone no other gets who waited.
func TestAnswersOfOne(t *testing.T) {
	var count atomic.Int32
	h := hold(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-User", fmt.Sprint("u", count.Add(1)))
		w.Header().Set("Set-Cookie", "session=new")
	})
	m, _ := newBed(t).build(`{http: {url: "` + h.url + `", response_headers: [X-User], client_headers: [Set-Cookie]}, timeout: 1m, cache: {ttl: 1h}}`)
	c := newCrowd(t, m)
	c.ask(t.Context())
	wait(t, "a question", h.asked)
	for range 5 {
		c.ask(t.Context())
	}
	close(h.let)
	seen := map[string]bool{}
	for range 6 {
		o := c.next()
		if o.status != 200 || seen[o.user] {
			t.Errorf("%v, after %v", o, seen)
		}
		seen[o.user] = true
	}
}

// TestTimeOfAQuestion: it takes no longer than the service may.
func TestTimeOfAQuestion(t *testing.T) {
	h := hold(t, nil)
	b := newBed(t)
	m, _ := b.build(`{http: {url: "` + h.url + `"}, timeout: 50ms, cache: {ttl: 1h}}`)
	c := newCrowd(t, m)
	for range 3 {
		c.ask(t.Context())
	}
	for range 3 {
		if o := c.next(); word(o.err) != pipeline.AuthUnavailable {
			t.Error(o)
		}
	}
	wait(t, "the end of the question", h.left)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(b.log.String(), "cannot be asked"); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the log has nothing of it")
		}
	}
}
