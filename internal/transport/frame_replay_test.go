package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// refusals are the ways in which an endpoint does not take a request up. Those that
// let the connection run out are followed by another sending.
var refusals = map[string]struct {
	refuse func(f *framer, stream uint32)
	again  bool
}{
	"refused": {func(f *framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, false},
	"away":    {func(f *framer, s uint32) { _ = f.WriteGoAway(s-1, http2.ErrCodeNo, nil) }, true},
	"away and closed": {func(f *framer, s uint32) {
		_ = f.WriteGoAway(s-1, http2.ErrCodeNo, nil)
		_ = f.conn.Close()
	}, true},
}

// methods are one that an endpoint may see twice, and one that it may not.
func methods() map[string]func() *message.Request {
	return map[string]func() *message.Request{
		"GET": func() *message.Request { return get("/") },
		"POST": func() *message.Request {
			request := get("/")
			request.Method, request.Body, request.Length = "POST", message.Text("body"), 4
			return request
		},
	}
}

// Where a connection runs out what the endpoint did not take up goes over another
// one, whatever it is.
func TestRequestsThatWereNotTakenUp(t *testing.T) {
	for name, c := range refusals {
		if !c.again {
			continue
		}
		each(t, func(t *bed) {
			var refused atomic.Int64
			endpoint := framed(t, nil, func(f *framer) {
				first := true
				for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
					if !first {
						refused.Add(1)
						c.refuse(f, stream)
						continue
					}
					first = false
					f.ok(stream)
				}
			})
			transport := h2c(t, endpoint, setup{})
			for method, request := range methods() {
				ask(t, transport, get("/"))
				if _, body, err := read(t.Context(), transport, request()); body != "ok" || err != nil {
					t.Errorf("%s, %s: got %q, %v", name, method, body, err)
				}
			}
			if refused.Load() == 0 {
				t.Errorf("%s: nothing was refused", name)
			}
		})
	}
}

// An endpoint that takes nothing up gets no request a third time, and one that
// refuses gets it once: what to do then is the route's to say.
func TestEndpointsThatTakeNothingUp(t *testing.T) {
	for name, c := range refusals {
		for method, request := range methods() {
			each(t, func(t *bed) {
				var heads atomic.Int64
				endpoint := framed(t, nil, func(f *framer) {
					for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
						heads.Add(1)
						c.refuse(f, stream)
					}
				})
				transport := h2c(t, endpoint, setup{})
				want := int64(1)
				if c.again {
					want = 2
				}
				if e := wantError(t, fails(t.Context(), t, transport, request()), pipeline.UpstreamReset); !e.Unsent {
					t.Errorf("%s, %s: it counts as sent: %v", name, method, &e)
				}
				if got := heads.Load(); got != want {
					t.Errorf("%s: the endpoint got a %s %d times, want %d", name, method, got, want)
				}
			})
		}
	}
}

// A connection that ends with an error at its first request is not tried again, for
// the request may be the cause; yet it was not processed (RFC 9113 6.8).
func TestConnectionsThatFailWithTheirFirstRequest(t *testing.T) {
	each(t, func(t *bed) {
		var heads atomic.Int64
		endpoint := framed(t, nil, func(f *framer) {
			for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
				heads.Add(1)
				_ = f.WriteGoAway(0, http2.ErrCodeProtocol, nil)
				f.rest()
			}
		})
		transport := h2c(t, endpoint, setup{})
		e := wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamReset)
		if got := heads.Load(); got != 1 || !e.Unsent {
			t.Errorf("sent %d times, unsent %v: %v", got, e.Unsent, &e)
		}
	})
}

// A request that an endpoint may have seen counts as sent, whatever becomes of its
// second sending.
func TestRefusalAfterADeadConnection(t *testing.T) {
	each(t, func(t *bed) {
		var heads, connections atomic.Int64
		endpoint := framed(t, nil, func(f *framer) {
			first := connections.Add(1) == 1
			for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
				switch n := heads.Add(1); {
				case n == 1:
					f.ok(stream)
				case first:
					return // the connection closes
				default:
					_ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
				}
			}
		})
		transport := h2c(t, endpoint, setup{})
		ask(t, transport, get("/"))
		e := wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamReset)
		if got := heads.Load(); got != 3 || e.Unsent {
			t.Errorf("%d requests, unsent %v: %v", got, e.Unsent, &e)
		}
	})
}

// An endpoint that allows fewer streams since a moment ago, and refuses what is over
// that, gets the request over another connection.
func TestRefusalsByNewSettings(t *testing.T) {
	each(t, func(t *bed) {
		var connections atomic.Int64
		held := make(chan struct{})
		free := make(chan struct{})
		endpoint := framed(t, nil, func(f *framer) {
			if connections.Add(1) > 1 {
				for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
					f.ok(stream)
				}
				return
			}
			first, _ := f.next()
			close(held)
			second, _ := f.next()
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
			_ = f.WriteRSTStream(second, http2.ErrCodeRefusedStream)
			<-free
			f.ok(first)
			f.rest()
		})
		release := sync.OnceFunc(func() { close(free) })
		t.Cleanup(release)
		transport := h2c(t, endpoint, setup{})
		done := make(chan error, 1)
		go func() {
			_, _, err := read(context.WithoutCancel(t.Context()), transport, get("/"))
			done <- err
		}()
		waittest.Receive(t, "the first request", held)
		for _, request := range methods() {
			if _, body, err := read(t.Context(), transport, request()); body != "ok" || err != nil {
				t.Errorf("got %q, %v", body, err)
			}
		}
		release()
		if err := waittest.Receive(t, "the first response", done); err != nil {
			t.Error(err)
		}
	})
}

// A refusal tells how many attempts at once the endpoint takes.
func TestRefusalsLowerTheLimit(t *testing.T) {
	each(t, func(t *bed) {
		held, answer := make(chan uint32, 2), make(chan struct{})
		endpoint := framed(t, nil, func(f *framer) {
			var streams []uint32
			for len(streams) < 2 {
				stream, _ := f.next()
				streams = append(streams, stream)
				held <- stream
			}
			refused, _ := f.next()
			_ = f.WriteRSTStream(refused, http2.ErrCodeRefusedStream)
			<-answer
			for _, stream := range streams {
				f.ok(stream)
			}
			f.rest()
		})
		raw, ok := acquired(t, &model.Upstream{Protocol: model.UpstreamH2C}, endpoint, Observer{}).(*sharing)
		if !ok {
			t.Fatal("it is another transport")
		}
		transport := by(t.own, raw)
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, _, err := read(t.Context(), transport, get("/"))
				done <- err
			}()
			waittest.Receive(t, "a request", held)
		}
		if _, _, err := read(t.Context(), transport, get("/")); pipeline.AsError(err).Word != pipeline.UpstreamReset {
			t.Errorf("got %v", err)
		}
		raw.mu.Lock()
		limit := raw.sessions[0].limit
		raw.mu.Unlock()
		if limit != 2 {
			t.Errorf("the limit is %d", limit)
		}
		close(answer)
		for range 2 {
			if err := waittest.Receive(t, "an answer", done); err != nil {
				t.Error(err)
			}
		}
	})
}
