package limit

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
)

// tunnel is one that nobody uses.
type tunnel struct{ message.Tunnel }

func TestOutcome(t *testing.T) {
	body := func(length int64) message.Request {
		return message.Request{Method: "POST", Body: io.NopCloser(strings.NewReader("")), Length: length}
	}
	call := body(message.Unknown)
	call.Fields.Add("Content-Type", "application/grpc")
	typed := func(kind string, more ...string) message.Response {
		r := message.Response{Status: 200}
		r.Fields.Add("Content-Type", kind)
		for i := 0; i < len(more); i += 2 {
			r.Fields.Add(more[i], more[i+1])
		}
		return r
	}
	for name, c := range map[string]struct {
		request  message.Request
		response message.Response
		err      error
		own      bool // no endpoint was asked
		want     resilience.Outcome
	}{
		"an answer":            {response: message.Response{Status: 200}, want: resilience.Served},
		"not found":            {response: message.Response{Status: 404}, want: resilience.Served},
		"a failure":            {response: message.Response{Status: 500}, want: resilience.Failed},
		"unavailable":          {response: message.Response{Status: 503}, want: resilience.Dropped},
		"a gateway's time-out": {response: message.Response{Status: 504}, want: resilience.Dropped},
		"the gateway's own":    {response: message.Response{Status: 200}, own: true, want: resilience.Failed},
		"its own 503":          {response: message.Response{Status: 503}, own: true, want: resilience.Failed},

		"a tunnel":        {response: message.Response{Status: 101, Tunnel: tunnel{}}, want: resilience.Failed},
		"an event stream": {response: typed("text/event-stream; charset=utf-8"), want: resilience.Failed},
		"a call":          {request: call, response: typed("application/grpc"), want: resilience.Served},
		"a call in vain":  {request: call, response: typed("application/grpc", "grpc-status", "14"), want: resilience.Dropped},
		"a call too long": {request: call, response: typed("application/grpc", "grpc-status", "4"), want: resilience.Dropped},
		"a bad call":      {request: call, response: typed("application/grpc", "grpc-status", "13"), want: resilience.Failed},

		"a small body":  {request: body(swiftBody), response: message.Response{Status: 200}, want: resilience.Served},
		"a large body":  {request: body(swiftBody + 1), response: message.Response{Status: 200}, want: resilience.Failed},
		"an open body":  {request: body(message.Unknown), response: message.Response{Status: 200}, want: resilience.Failed},
		"a body in 503": {request: body(message.Unknown), response: message.Response{Status: 503}, want: resilience.Dropped},

		"a time-out":          {err: pipeline.NewError(pipeline.UpstreamTimeout, nil), want: resilience.Dropped},
		"a full pool":         {err: pipeline.NewError(pipeline.Overloaded, nil), want: resilience.Dropped},
		"a connection late":   {err: pipeline.NewError(pipeline.UpstreamConnect, fmt.Errorf("dial: %w", os.ErrDeadlineExceeded)), want: resilience.Dropped},
		"late by the system":  {err: pipeline.NewError(pipeline.UpstreamConnect, fmt.Errorf("dial: %w", syscall.ETIMEDOUT)), want: resilience.Dropped},
		"another limit":       {err: pipeline.NewError(pipeline.Overloaded, nil), own: true, want: resilience.Failed},
		"a refusal":           {err: pipeline.NewError(pipeline.UpstreamConnect, syscall.ECONNREFUSED), want: resilience.Failed},
		"a connection broken": {err: pipeline.NewError(pipeline.UpstreamReset, nil), want: resilience.Failed},
		"no endpoint":         {err: pipeline.NewError(pipeline.NoEndpoint, nil), want: resilience.Failed},
		"an open breaker":     {err: pipeline.NewError(pipeline.CircuitOpen, nil), want: resilience.Failed},
		"a client that left":  {err: pipeline.ErrClientGone, want: resilience.Failed},
		"any other":           {err: errors.New("broken"), want: resilience.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			x := pipeline.NewExchange(t.Context(), &c.request, &model.Listener{}, netip.AddrPort{}, time.Time{})
			if !c.own {
				x.Attempts = 1
			}
			if c.err == nil {
				x.Response = &c.response
			}
			if got := outcomeOf(x, c.err); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
