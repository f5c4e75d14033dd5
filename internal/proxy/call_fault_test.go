package proxy_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/rpc"
)

// returns is a step of a call: its code is in the head, or behind a message.
func returns(code string, behind bool) step {
	return func(context.Context, *message.Request) (*message.Response, error) {
		r := &message.Response{Status: 200, Length: message.Unknown}
		r.Fields.Add("Content-Type", "application/grpc")
		told := message.Fields{}
		told.Add("grpc-status", code)
		if behind {
			r.Body = io.NopCloser(strings.NewReader("\x00\x00\x00\x00\x00"))
			r.Trailer = func() message.Fields { return told }
		} else {
			r.Fields = append(r.Fields, told...)
		}
		return r, nil
	}
}

// TestCallsThatFail count as the status that their code stands for, wherever that
// is.
func TestCallsThatFail(t *testing.T) {
	for code, opens := range map[string]bool{"0": false, "2": true, "5": false, "8": false, "13": true, "14": false, "99": false} {
		for _, behind := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				g := behindBreaker(t, breaking(model.ScopeUpstream), nil, returns(code, behind)) // of 500 alone
				call := func() *pipeline.Exchange {
					request := post(strings.NewReader("\x00\x00\x00\x00\x00"), 5)
					request.Fields.Add("Content-Type", "application/grpc")
					return exchange(t.Context(), request)
				}
				g.pass(call())
				x := call()
				err := g.Serve(x)
				if err == nil {
					g.drain(x)
				}
				if open := err != nil && pipeline.AsError(err).Word == pipeline.CircuitOpen; open != opens {
					t.Errorf("code %s, behind a message: %v: %v", code, behind, err)
				}
				g.idle()
			})
		}
	}
}

// TestCallsAreRepeated where the server could not serve them, if they may be.
func TestCallsAreRepeated(t *testing.T) {
	for method, attempts := range map[string]int{"PUT": 1, "POST": 2} {
		synctest.Test(t, func(t *testing.T) {
			transport := &steps{list: []step{returns("14", false), returns("0", false)}}
			listed := func(r *model.Retry) { r.Methods = []string{method} } // a call is a POST
			g := forward(t, retrying(listed), transport, endpointsOf(2)...)
			request := post(strings.NewReader("\x00\x00\x00\x00\x00"), 5)
			request.Fields.Add("Content-Type", "application/grpc")
			x := exchange(t.Context(), request)
			g.pass(x)
			if x.Attempts != attempts {
				t.Errorf("%s: %d attempts", method, x.Attempts)
			}
			g.idle()
		})
	}
}

// TestTheEndpointTellsThatTimeIsOver first, having been told of it: it is over for the
// gateway, too, by the route's word.
func TestTheEndpointTellsThatTimeIsOver(t *testing.T) {
	for _, behind := range []bool{false, true} {
		for _, c := range []struct {
			code string
			at   time.Duration
			over bool
		}{{"4", 3 * s, true}, {"5", 3 * s, false}, {"4", 3*s - 1, false}} {
			synctest.Test(t, func(t *testing.T) {
				slow := func(ctx context.Context, request *message.Request) (*message.Response, error) {
					<-time.After(c.at)
					return returns(c.code, behind)(ctx, request)
				}
				g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Total: 3 * s}}, &steps{list: []step{slow}}, endpointsOf(1)...)
				request := post(strings.NewReader("\x00\x00\x00\x00\x00"), 5)
				request.Fields.Add("Content-Type", "application/grpc")
				x := exchange(t.Context(), request)
				err := g.Serve(x)
				if err == nil && x.Response.Body != nil {
					_, err = io.Copy(io.Discard, x.Response.Body)
					if closing := x.Response.Body.Close(); err == nil {
						err = closing
					}
				}
				if got := err != nil && pipeline.AsError(err).Word == pipeline.UpstreamTimeout; got != c.over {
					t.Errorf("%s after %v, behind a message: %v: %v", c.code, c.at, behind, err)
				}
				g.idle()
			})
		}
	}
}

// withHead is the body of a stream whose first message came along with the head, and
// whose next never comes.
type withHead struct {
	*strings.Reader
	ctx context.Context
}

func (w withHead) Buffered() int { return w.Len() }

func (w withHead) Read(p []byte) (int, error) {
	if w.Len() > 0 {
		return w.Reader.Read(p)
	}
	<-w.ctx.Done()
	return 0, context.Cause(w.ctx)
}

func (withHead) Close() error { return nil }

// TestTimeIsOverBehindAMessage that was there at once: a stream had begun, and its
// client is told to come again.
func TestTimeIsOverBehindAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := func(ctx context.Context, _ *message.Request) (*message.Response, error) {
			r := &message.Response{Status: 200, Length: message.Unknown, Body: withHead{strings.NewReader("\x00\x00\x00\x00\x00"), ctx}}
			r.Fields.Add("Content-Type", "application/grpc")
			return r, nil
		}
		g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Total: 3 * s}}, &steps{list: []step{streams}}, endpointsOf(1)...)
		request := post(strings.NewReader("\x00\x00\x00\x00\x00"), 5)
		request.Fields.Add("Content-Type", "application/grpc")
		x := exchange(t.Context(), request)
		if err := g.Serve(x); err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, x.Response.Body)
		if e := pipeline.AsError(err); n != 5 || err == nil || e.Word != pipeline.UpstreamTimeout || e.Code != rpc.Unavailable {
			t.Errorf("%d bytes, %v %v", n, err, e.Code)
		}
		if err := x.Response.Body.Close(); err != nil {
			t.Error(err)
		}
		g.idle()
	})
}
