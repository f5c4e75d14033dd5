package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// words are the closed set of SPEC 4, as far as it can occur.
var words = map[pipeline.Word]struct {
	status int
	fault  pipeline.Fault
}{
	pipeline.BadRequest: {400, pipeline.Client}, pipeline.BadPath: {400, pipeline.Client}, pipeline.Forbidden: {403, pipeline.Client},
	pipeline.Unauthenticated: {401, pipeline.Client}, pipeline.AuthUnavailable: {503, pipeline.Gateway},
	pipeline.NoRoute: {404, pipeline.Client}, pipeline.MethodNotAllowed: {405, pipeline.Client}, pipeline.RequestTimeout: {408, pipeline.Client},
	pipeline.BodyTooLarge: {413, pipeline.Client}, pipeline.URITooLong: {414, pipeline.Client}, pipeline.HeaderTooLarge: {431, pipeline.Client},
	pipeline.ClientClosed: {499, pipeline.Client}, pipeline.LoopDetected: {508, pipeline.Gateway}, pipeline.NotImplemented: {501, pipeline.Client},
	pipeline.BadVersion: {505, pipeline.Client}, pipeline.UpstreamConnect: {502, pipeline.Upstream}, pipeline.UpstreamReset: {502, pipeline.Upstream},
	pipeline.UpstreamProtocol: {502, pipeline.Upstream}, pipeline.UpstreamTimeout: {504, pipeline.Upstream}, pipeline.NoEndpoint: {503, pipeline.Gateway},
	pipeline.CircuitOpen: {503, pipeline.Gateway}, pipeline.Overloaded: {503, pipeline.Gateway}, pipeline.Internal: {500, pipeline.Gateway},
	pipeline.RateLimited: {429, pipeline.Client}, pipeline.LimitUnavailable: {503, pipeline.Gateway},
}

func TestErrors(t *testing.T) {
	cause := errors.New("dial 10.0.0.1: secret")
	for word, want := range words {
		e := pipeline.NewError(word, cause)
		if e.Status != want.status || e.Fault != want.fault || e.Word != word {
			t.Errorf("%s: %+v", word, e)
		}
		if !strings.HasSuffix(e.Detail, ".") || strings.Contains(e.Detail, "secret") {
			t.Errorf("%s: %q", word, e.Detail)
		}
		if !errors.Is(e, cause) || e.Error() != string(word)+": "+cause.Error() {
			t.Errorf("%s: %v", word, e)
		}
		if bare := pipeline.NewError(word, nil); bare.Error() != string(word) || bare.Unwrap() != nil {
			t.Errorf("%s: %v", word, bare)
		}
		if message.Reason(want.status) == "" && word != pipeline.ClientClosed {
			t.Errorf("%d has no title", want.status)
		}
	}
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "BUG:") {
			t.Errorf("an unknown word: %s", got)
		}
	}()
	_ = pipeline.NewError("nonsense", nil)
}

func TestAsError(t *testing.T) {
	own := pipeline.NewError(pipeline.NoRoute, nil)
	for _, c := range []struct {
		name string
		err  error
		want pipeline.Word
	}{
		{"its own", own, pipeline.NoRoute},
		{"wrapped", fmt.Errorf("route: %w", own), pipeline.NoRoute},
		{"the client left", pipeline.ErrClientGone, pipeline.ClientClosed},
		{"the client left, in an upstream's error", pipeline.NewError(pipeline.UpstreamReset, fmt.Errorf("read: %w", pipeline.ErrClientGone)), pipeline.ClientClosed},
		{"cancelled", fmt.Errorf("read: %w", context.Canceled), pipeline.ClientClosed},
		{"an upstream's error, cancelled by the gateway", pipeline.NewError(pipeline.UpstreamTimeout, context.Canceled), pipeline.UpstreamTimeout},
		{"anything else", io.ErrUnexpectedEOF, pipeline.Internal},
	} {
		e := pipeline.AsError(c.err)
		if e == nil || e.Word != c.want || !errors.Is(e, c.err) && !errors.Is(c.err, e) {
			t.Errorf("%s: %v", c.name, e)
		}
	}
	if e := pipeline.AsError(nil); e != nil {
		t.Errorf("nil: %v", e)
	}
	if pipeline.AsError(own) != own {
		t.Error("an error of the pipeline's own is replaced")
	}
}

// body notes that it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func TestFail(t *testing.T) {
	x := exchange(t, untrusted)
	left := &body{Reader: strings.NewReader("")}
	x.Response = &message.Response{Status: 200, Body: left}
	e := pipeline.NewError(pipeline.MethodNotAllowed, errors.New("dial 10.0.0.1"))
	e.Detail = "Say <\"please\">."
	e.Fields.Put(message.Allow, "GET")
	e.Fields.Put(message.ContentType, "application/problem+json; charset=utf-8")
	e.Close = true
	pipeline.Fail(x, fmt.Errorf("wrapped: %w", e))
	if !left.closed {
		t.Error("the response that was there is open")
	}
	if x.Err != e || x.ID == "" {
		t.Errorf("error %v, id %q", x.Err, x.ID)
	}
	r := x.Response
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != 405 || r.Length != int64(len(text)) {
		t.Errorf("status %d, length %d of %d", r.Status, r.Length, len(text))
	}
	for name, want := range map[string]string{"Content-Type": "application/problem+json; charset=utf-8", "Allow": "GET", "Connection": "close", "X-Request-ID": x.ID} {
		if got, _ := r.Fields.Find(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	want := map[string]any{"type": "about:blank", "title": "Method Not Allowed", "status": 405.0, "detail": e.Detail, "error": "method_not_allowed", "request_id": x.ID}
	if len(got) != len(want) {
		t.Errorf("members: %s", text)
	}
	for member, value := range want {
		if got[member] != value {
			t.Errorf("%s: %v", member, got[member])
		}
	}
	if strings.Contains(string(text), "10.0.0.1") {
		t.Errorf("it tells the cause: %s", text)
	}
}

func TestFailWithAForeignError(t *testing.T) {
	x := exchange(t, untrusted)
	x.Request = nil // a request that could not be read
	pipeline.Fail(x, errors.New("secret"))
	text, err := io.ReadAll(x.Response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if x.Response.Status != 500 || x.Err.Word != pipeline.Internal || strings.Contains(string(text), "secret") || x.ID == "" {
		t.Errorf("%d %v %s", x.Response.Status, x.Err, text)
	}
	if x.Response.Fields.Has(message.Connection) {
		t.Error("it closes the connection")
	}
}

func TestChainRunsTheFirstOutermost(t *testing.T) {
	var log []string
	step := func(name string) pipeline.Middleware {
		return func(next pipeline.Handler) pipeline.Handler {
			return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
				log = append(log, "> "+name)
				err := next.Serve(x)
				log = append(log, "< "+name)
				return err
			})
		}
	}
	failed := errors.New("failed")
	destination := pipeline.HandlerFunc(func(*pipeline.Exchange) error { log = append(log, "here"); return failed })
	if err := pipeline.Chain(destination, step("a"), step("b")).Serve(exchange(t, untrusted)); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(log, " "); got != "> a > b here < b < a" {
		t.Error(got)
	}
}

func TestExchange(t *testing.T) {
	x := exchange(t, untrusted)
	x.Params = []model.Param{{Name: "a", Value: "1"}, {Name: "b", Value: "%2F"}}
	if x.Param("b") != "%2F" || x.Param("c") != "" {
		t.Errorf("parameters: %q, %q", x.Param("b"), x.Param("c"))
	}
	ran := false
	x.Wait(func() { ran = true })
	if !ran || x.Context() != t.Context() {
		t.Error("it neither waits nor ends with its context")
	}
}

func TestKind(t *testing.T) {
	type options struct{ N int }
	type settings struct{ N int }
	kind := pipeline.NewKind("limit", func() *options { return &options{N: 1} },
		func(o *options, report model.Report) settings {
			if o.N < 0 {
				report("n", "too small", "")
			}
			return settings(*o)
		},
		func(_ *pipeline.Site, s settings) pipeline.Middleware {
			return func(next pipeline.Handler) pipeline.Handler {
				return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
					x.Attempts = s.N
					return next.Serve(x)
				})
			}
		})
	var reported []string
	report := func(path, message, _ string) { reported = append(reported, path+": "+message) }
	o, ok := kind.Options().(*options)
	if !ok || o.N != 1 || kind.Name != "limit" {
		t.Fatalf("%+v", kind.Options())
	}
	x := exchange(t, untrusted)
	done := pipeline.HandlerFunc(func(*pipeline.Exchange) error { return nil })
	if err := kind.Build(&pipeline.Site{}, kind.Validate(o, report))(done).Serve(x); err != nil || x.Attempts != 1 {
		t.Errorf("%v, %d", err, x.Attempts)
	}
	kind.Validate(&options{N: -1}, report)
	if got := strings.Join(reported, "|"); got != "n: too small" {
		t.Errorf("reported %q", got)
	}
	for _, wrong := range []func(){func() { kind.Build(&pipeline.Site{}, 7) }, func() { kind.Validate(7, report) }} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "BUG: limit") {
					t.Errorf("panicked with %q", got)
				}
			}()
			wrong()
		}()
	}
}
