package proxy_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/rpc"
)

// calling is an exchange of a call that is admitted.
func calling(t *testing.T, body io.Reader, fields ...string) *pipeline.Exchange {
	t.Helper()
	request := post(body, message.Unknown)
	request.Protocol = message.HTTP2
	for _, field := range append([]string{"content-type: application/grpc", "te: trailers"}, fields...) {
		name, value, _ := strings.Cut(field, ": ")
		request.Fields.Add(name, value)
	}
	x := exchange(t.Context(), request)
	if err := pipeline.Admit(x, nil); err != nil {
		t.Fatal(err)
	}
	return x
}

// dying is a transport whose endpoint ends the call by itself after some time,
// before the head or in the body.
type dying struct {
	after time.Duration
	late  bool
	asked message.Request
}

func (d *dying) RoundTrip(ctx context.Context, request *message.Request, _ func(int, message.Fields)) (*message.Response, error) {
	d.asked = *request
	reset := pipeline.NewError(pipeline.UpstreamReset, nil)
	if !d.late {
		time.Sleep(d.after)
		return nil, reset
	}
	r := &message.Response{Status: 200, Length: message.Unknown}
	r.Fields.Add("Content-Type", "application/grpc")
	r.Body = io.NopCloser(io.MultiReader(&paced{ctx: ctx, pauses: []time.Duration{d.after}}, iotest.ErrReader(reset)))
	return r, nil
}

// TestDeadlinesOfCalls has an endpoint that ends a call itself, before its time is
// over or when it is: it was given what was left of that.
func TestDeadlinesOfCalls(t *testing.T) {
	for name, c := range map[string]struct {
		fields   []string
		total    time.Duration // of the route
		began    time.Duration // how long ago the exchange began
		endpoint dying
		given    string // to the endpoint
		word     pipeline.Word
		code     rpc.Code
		blamed   int64 // failures of the endpoint
	}{
		"before":              {[]string{"grpc-timeout: 5S"}, 0, 0, dying{after: 4 * time.Second}, "5S", pipeline.UpstreamReset, rpc.Unavailable, 1},
		"at it":               {[]string{"grpc-timeout: 5S"}, 0, 0, dying{after: 5 * time.Second}, "5S", pipeline.UpstreamTimeout, rpc.DeadlineExceeded, 0},
		"at it, in the body":  {[]string{"grpc-timeout: 5S"}, 0, 0, dying{after: 5 * time.Second, late: true}, "5S", pipeline.UpstreamTimeout, rpc.DeadlineExceeded, 0},
		"some is used up":     {[]string{"grpc-timeout: 5S"}, 0, time.Second, dying{after: 4 * time.Second}, "4000000u", pipeline.UpstreamTimeout, rpc.DeadlineExceeded, 0},
		"the route's":         {[]string{"grpc-timeout: 5S"}, 3 * time.Second, 0, dying{after: 3 * time.Second}, "3000000u", pipeline.UpstreamTimeout, rpc.DeadlineExceeded, 1},
		"the route's, later":  {[]string{"grpc-timeout: 5S"}, 30 * time.Second, 0, dying{after: 5 * time.Second}, "5S", pipeline.UpstreamTimeout, rpc.DeadlineExceeded, 0},
		"the route's alone":   {nil, 3 * time.Second, 0, dying{after: 3 * time.Second, late: true}, "", pipeline.UpstreamTimeout, rpc.Unavailable, 1},
		"one that is none":    {[]string{"grpc-timeout: 5 S"}, 0, 0, dying{after: 9 * time.Second}, "5 S", pipeline.UpstreamReset, rpc.Unavailable, 1},
		"none":                {nil, 0, 0, dying{after: 9 * time.Second}, "", pipeline.UpstreamReset, rpc.Unavailable, 1},
		"over when it begins": {[]string{"grpc-timeout: 0n"}, 0, 0, dying{}, "0n", pipeline.UpstreamTimeout, rpc.DeadlineExceeded, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := forward(t, &model.Route{Timeouts: model.RouteTimeouts{Total: c.total}}, &c.endpoint, model.Endpoint{URL: "http://e", Weight: 1})
			x := calling(t, strings.NewReader(""), c.fields...)
			if c.began > 0 {
				x.Start, x.Until = x.Start.Add(-c.began), x.Until.Add(-c.began)
			}
			err := g.Serve(x)
			if err == nil {
				_, err = io.Copy(io.Discard, x.Response.Body)
				x.Response.Close()
			}
			if e := pipeline.AsError(err); e == nil || e.Word != c.word || e.Code != c.code {
				t.Errorf("%s: %v", name, err)
			}
			if got := c.endpoint.asked.Fields.Get(message.GRPCTimeout); got != c.given {
				t.Errorf("%s: the endpoint was given %q", name, got)
			}
			g.quiet(c.blamed)
		})
	}
}

// TestCallsAreSilentForLonger holds calls to the time of streams from their
// beginning.
func TestCallsAreSilentForLonger(t *testing.T) {
	limits := model.RouteTimeouts{Idle: 5 * time.Second, IdleStream: 20 * time.Second}
	for name, c := range map[string]struct {
		transport fake
		word      pipeline.Word // empty: none
	}{
		"before the head":      {fake{head: 19 * time.Second, kind: "application/grpc"}, ""},
		"in the response":      {fake{kind: "application/grpc", pauses: seconds(19, 19)}, ""},
		"too long":             {fake{head: 21 * time.Second, kind: "application/grpc"}, pipeline.UpstreamTimeout},
		"too long in response": {fake{kind: "application/grpc", pauses: seconds(21)}, pipeline.UpstreamTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := forward(t, &model.Route{Timeouts: limits}, &c.transport, model.Endpoint{URL: "http://e", Weight: 1})
			x := calling(t, drip(t.Context(), seconds(19)...))
			err := g.Serve(x)
			if err == nil {
				_, err = io.Copy(io.Discard, x.Response.Body)
				x.Response.Close()
			}
			switch e := pipeline.AsError(err); {
			case c.word == "" && e != nil, c.word != "" && (e == nil || e.Word != c.word):
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestFieldsOfCalls lets those through, both ways.
func TestFieldsOfCalls(t *testing.T) {
	spy := &answering{}
	g := forward(t, &model.Route{}, spy, model.Endpoint{URL: "http://e", Weight: 1})
	x := calling(t, strings.NewReader(""), "grpc-encoding: gzip", "grpc-accept-encoding: identity,gzip", "grpc-previous-rpc-attempts: 1", "x-token-bin: AA")
	if body := g.pass(x); body != "" {
		t.Errorf("body %q", body)
	}
	for _, want := range []string{"te: trailers", "content-type: application/grpc", "grpc-encoding: gzip", "grpc-accept-encoding: identity,gzip", "grpc-previous-rpc-attempts: 1", "x-token-bin: AA"} {
		if got := strings.ToLower(fieldText(spy.asked.Fields)); !strings.Contains(got, strings.ToLower(want)) {
			t.Errorf("the endpoint lacks %s:\n%s", want, got)
		}
	}
	if got := fieldText(x.Response.Trailer()); got != "grpc-status: 5\ngrpc-message: no%20such\ngrpc-status-details-bin: CAU\nx-more: 1" {
		t.Errorf("trailer\n%s", got)
	}
}

// answering is a transport whose endpoint announces no trailer, and has some.
type answering struct{ asked message.Request }

func (a *answering) RoundTrip(_ context.Context, request *message.Request, _ func(int, message.Fields)) (*message.Response, error) {
	a.asked = *request
	r := &message.Response{Status: 200, Length: message.Unknown, Body: io.NopCloser(strings.NewReader(""))}
	r.Fields.Add("Content-Type", "application/grpc")
	r.Trailer = func() (fields message.Fields) {
		for _, field := range []string{"grpc-status: 5", "grpc-message: no%20such", "grpc-status-details-bin: CAU", "x-more: 1", "Connection: close"} {
			name, value, _ := strings.Cut(field, ": ")
			fields.Add(name, value)
		}
		return fields
	}
	return r, nil
}
