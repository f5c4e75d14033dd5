package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strconv"
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

// call is an exchange of a request with a Content-Type.
func call(protocol message.Protocol, contentType string, fields ...string) *pipeline.Exchange {
	r := &message.Request{Protocol: protocol, Method: "POST", Host: "calls.test", Target: "/p.S/M", Path: "/p.S/M"}
	r.Fields.Add("content-type", contentType)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Fields.Add(name, value)
	}
	x := pipeline.NewExchange(context.Background(), r, &model.Listener{}, netip.AddrPort{}, time.Now())
	x.ID = "id-1"
	return x
}

func TestCallOf(t *testing.T) {
	x := call(message.HTTP2, "application/grpc+proto")
	if pipeline.CallOf(x.Request) != rpc.Plain {
		t.Error("a call is none")
	}
	x.Request.Method = "PUT"
	if pipeline.CallOf(x.Request) != rpc.None {
		t.Error("PUT makes a call")
	}
	if pipeline.CallOf(nil) != rpc.None || pipeline.CallOf(call(message.HTTP2, "application/json").Request) != rpc.None {
		t.Error("what is no call is one")
	}
}

// lines is a response's fields, one a line.
func lines(fields message.Fields) string {
	var out strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&out, "%s: %s\n", f.Name, f.Value)
	}
	return out.String()
}

func TestCodes(t *testing.T) {
	for word, want := range map[pipeline.Word]rpc.Code{
		pipeline.BadRequest: 13, pipeline.BadPath: 13, pipeline.Unauthenticated: 16, pipeline.AuthUnavailable: 14, pipeline.Forbidden: 7, pipeline.NoRoute: 12, pipeline.MethodNotAllowed: 12, pipeline.RequestTimeout: 4,
		pipeline.BodyTooLarge: 8, pipeline.URITooLong: 8, pipeline.HeaderTooLarge: 8, pipeline.ClientClosed: 1, pipeline.LoopDetected: 13,
		pipeline.NotImplemented: 12, pipeline.BadVersion: 12, pipeline.UpstreamConnect: 14, pipeline.UpstreamReset: 14, pipeline.UpstreamProtocol: 14,
		pipeline.UpstreamTimeout: 4, pipeline.NoEndpoint: 14, pipeline.CircuitOpen: 14, pipeline.Overloaded: 14, pipeline.Internal: 13,
		pipeline.RateLimited: 14, pipeline.LimitUnavailable: 14,
	} {
		if got := pipeline.NewError(word, nil).Code; got != want {
			t.Errorf("%s: %s", word, got)
		}
	}
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	for word := range words {
		code := pipeline.NewError(word, nil).Code
		if code == rpc.OK {
			t.Errorf("%s has no code", word)
		}
		if told := regexp.MustCompile("(?m)^\\| " + strconv.Itoa(int(code)) + " `" + code.String() + "` \\|.*`" + string(word) + "`"); !told.Match(page) {
			t.Errorf("docs/errors.md does not tell that %s is %s", word, code)
		}
	}
}

func TestFailOfACall(t *testing.T) {
	for _, protocol := range []message.Protocol{message.HTTP2, message.HTTP3} {
		x := call(protocol, "application/grpc+proto")
		e := pipeline.NewError(pipeline.Overloaded, errors.New("a secret"))
		e.Detail = "100% full."
		e.Fields.Add("Retry-After", "2")
		e.Fields.Add("Content-Type", "text/plain")
		e.Fields.Add("X-Mine", "1")
		e.Close = true
		pipeline.Fail(x, e)
		const want = "Retry-After: 2\nContent-Type: application/grpc+proto\nX-Mine: 1\ngrpc-status: 14\ngrpc-message: overloaded: 100%25 full.\n" +
			"grpc-retry-pushback-ms: 2000\nConnection: close\nX-Request-ID: id-1\n"
		if r := x.Response; r.Status != 200 || r.Body != nil || r.Length != 0 || r.Trailer != nil || lines(r.Fields) != want {
			t.Errorf("%+v\n%s", r, lines(r.Fields))
		}
		if x.Status != 503 || x.Err != e {
			t.Errorf("status %d, error %v", x.Status, x.Err)
		}
	}
}

// TestFailOfNoCall has what looks like a call and gets a problem document.
func TestFailOfNoCall(t *testing.T) {
	for name, x := range map[string]*pipeline.Exchange{
		"HTTP/1.1": call(message.HTTP11, "application/grpc"), "JSON": call(message.HTTP2, "application/json"),
	} {
		x.Status = 7
		pipeline.Fail(x, pipeline.NewError(pipeline.NoRoute, nil))
		if got := x.Response.Fields.Get(message.ContentType); got != "application/problem+json" || x.Response.Status != 404 || x.Status != 0 {
			t.Errorf("%s: %d with %s, logged as %d", name, x.Response.Status, got, x.Status)
		}
	}
}

func TestFailOfAWebCall(t *testing.T) {
	const frame = "\x80\x00\x00\x00\x46grpc-status:12\r\ngrpc-message:no_route: No route matches the request.\r\n"
	for _, c := range []struct{ asked, accept, kind, body string }{
		{"application/grpc-web+proto", "", "application/grpc-web+proto", frame},
		{"application/grpc-web", "*/*", "application/grpc-web", frame},
		{"application/grpc-web-text", "", "application/grpc-web-text", "gAAAAEZncnBjLXN0YXR1czoxMg0KZ3JwYy1tZXNzYWdlOm5vX3JvdXRlOiBObyByb3V0ZSBtYXRjaGVzIHRoZSByZXF1ZXN0Lg0K"},
		{"application/grpc-web-text", "text/html, application/grpc-web+proto;q=1", "application/grpc-web+proto", frame},
		{"application/grpc-web+proto", "application/grpc-web-text", "application/grpc-web-text", "gAAAAEZncnBjLXN0YXR1czoxMg0KZ3JwYy1tZXNzYWdlOm5vX3JvdXRlOiBObyByb3V0ZSBtYXRjaGVzIHRoZSByZXF1ZXN0Lg0K"},
	} {
		x := call(message.HTTP11, c.asked)
		if c.accept != "" {
			x.Request.Fields.Add("Accept", c.accept)
		}
		pipeline.Fail(x, pipeline.NewError(pipeline.NoRoute, nil))
		body, err := io.ReadAll(x.Response.Body)
		if err != nil {
			t.Fatal(err)
		}
		r := x.Response
		if r.Status != 200 || string(body) != c.body || r.Length != int64(len(c.body)) || r.Fields.Get(message.ContentType) != c.kind || x.Status != 404 {
			t.Errorf("%s: %d %q as %d\n%s", c.asked, r.Status, body, x.Status, lines(r.Fields))
		}
	}
}

func TestFailWithoutACode(t *testing.T) {
	x := call(message.HTTP2, "application/grpc")
	pipeline.Fail(x, &pipeline.Error{Word: "other", Status: 599, Detail: "Other."})
	if got, _ := x.Response.Fields.Find("grpc-status"); got != "2" {
		t.Errorf("grpc-status %s", got)
	}
}

// TestRetryPushback takes seconds alone.
func TestRetryPushback(t *testing.T) {
	for after, want := range map[string]string{"0": "0", "30": "30000", "Wed, 21 Oct 2015 07:28:00 GMT": "", "-1": "", "99999999999": ""} {
		x := call(message.HTTP2, "application/grpc")
		e := pipeline.NewError(pipeline.Overloaded, nil)
		e.Fields.Put(message.RetryAfter, after)
		pipeline.Fail(x, e)
		if got, _ := x.Response.Fields.Find("grpc-retry-pushback-ms"); got != want {
			t.Errorf("%s: %q", after, got)
		}
	}
}

func TestCallDeadline(t *testing.T) {
	for _, c := range []struct {
		kind   string
		fields []string
		want   time.Duration // negative: none
	}{
		{"application/grpc", []string{"grpc-timeout: 250m"}, 250 * time.Millisecond},
		{"application/grpc-web-text", []string{"grpc-timeout: 2S"}, 2 * time.Second},
		{"application/grpc", []string{"grpc-timeout: 0n"}, 0},
		{"application/grpc", nil, -1},
		{"application/grpc", []string{"grpc-timeout: 1s"}, -1},
		{"application/grpc", []string{"grpc-timeout: 1S", "grpc-timeout: 2S"}, -1},
		{"application/grpc", []string{"grpc-timeout: x", "grpc-timeout: 2S"}, -1},
		{"application/json", []string{"grpc-timeout: 1S"}, -1},
	} {
		x := call(message.HTTP2, c.kind, c.fields...)
		if err := pipeline.Admit(x, nil); err != nil {
			t.Fatal(err)
		}
		switch {
		case c.want < 0 && !x.Until.IsZero(), c.want >= 0 && x.Until.Sub(x.Start) != c.want:
			t.Errorf("%s %v: until %v after its start", c.kind, c.fields, x.Until.Sub(x.Start))
		}
		for i, field := range c.fields { // all pass as they are
			if _, value, _ := strings.Cut(field, ": "); x.Request.Fields[1+i].Value != value {
				t.Errorf("%v: %s", c.fields, lines(x.Request.Fields))
			}
		}
	}
}

func TestKeepDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			value string
			left  time.Duration // 0: no end
			want  string
		}{
			{"10S", 0, "10S"},
			{"10S", 10 * time.Second, "10S"},
			{"10S", 10*time.Second - 999*time.Microsecond, "10S"},
			{"10S", 10*time.Second - time.Millisecond, "9999000u"},
			{"10S", 2 * time.Second, "2000000u"},
			{"10S", -time.Second, "0n"},
			{"ten", 2 * time.Second, "ten"},
			{"10S", time.Hour, "10S"},
		} {
			fields := message.Fields{{Name: "grpc-timeout", Value: c.value, ID: message.GRPCTimeout}}
			var until time.Time
			if c.left != 0 {
				until = time.Now().Add(c.left)
			}
			pipeline.KeepDeadline(&fields, until)
			if got := fields.Get(message.GRPCTimeout); got != c.want {
				t.Errorf("%s with %v left: %s", c.value, c.left, got)
			}
		}
		var none message.Fields
		if pipeline.KeepDeadline(&none, time.Now()); none != nil {
			t.Error("a deadline came from nowhere")
		}
	})
}

// broken is a body that fails behind its text.
func broken(text string, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(text), iotest.ErrReader(err)))
}

func TestEndCall(t *testing.T) {
	cut := pipeline.NewError(pipeline.UpstreamReset, io.EOF) // a failure that looks like an end
	const whole, half = "\x00\x00\x00\x00\x02ab", "\x00\x00\x00\x00\x02a"
	theirs := func() message.Fields { return message.Fields{{Name: "grpc-status", Value: "0"}} }
	for _, c := range []struct {
		name    string
		body    string
		err     error
		trailer string // empty: it fails
	}{
		{"good", whole, io.EOF, "grpc-status: 0\n"},
		{"cut between messages", whole, cut, "grpc-status: 14\ngrpc-message: upstream_reset: The upstream closed the connection before it answered.\n"},
		{"cut before the first", "", cut, "grpc-status: 14\ngrpc-message: upstream_reset: The upstream closed the connection before it answered.\n"},
		{"cut in a message", half, cut, ""},
		{"the client has left", whole, fmt.Errorf("x: %w", pipeline.ErrClientGone), ""},
	} {
		x := call(message.HTTP2, "application/grpc")
		x.Response = &message.Response{Status: 200, Body: broken(c.body, c.err), Length: message.Unknown, Trailer: theirs}
		x.Response.Fields.Add("Content-Type", "application/grpc")
		pipeline.EndCall(x, false)
		body, err := io.ReadAll(iotest.OneByteReader(x.Response.Body))
		if string(body) != c.body || x.Response.Length != message.Unknown {
			t.Errorf("%s: %q of %d", c.name, body, x.Response.Length)
		}
		if c.trailer == "" {
			if err == nil || x.Err != nil {
				t.Errorf("%s: %v, and %v", c.name, err, x.Err)
			}
			continue
		}
		if got := lines(x.Response.Trailer()); err != nil || got != c.trailer {
			t.Errorf("%s: %v\n%s", c.name, err, got)
		}
		if told := x.Err != nil; told != (c.name != "good") {
			t.Errorf("%s: the log has %v", c.name, x.Err)
		}
		if n, err := x.Response.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF || message.Buffered(x.Response.Body) != 0 {
			t.Errorf("%s: behind the end: %d %v", c.name, n, err)
		}
	}
}

// TestEndCallLeaves what is no answer of gRPC with a body.
func TestEndCallLeaves(t *testing.T) {
	body := broken("", errors.New("broken"))
	for name, c := range map[string]struct {
		x    *pipeline.Exchange
		r    *message.Response
		kind string
		told bool
	}{
		"no response":            {call(message.HTTP2, "application/grpc"), nil, "", false},
		"only trailers":          {call(message.HTTP2, "application/grpc"), &message.Response{Body: body}, "application/grpc", false},
		"no body":                {call(message.HTTP2, "application/grpc"), &message.Response{}, "application/grpc", false},
		"another kind":           {call(message.HTTP2, "application/grpc"), &message.Response{Body: body, Length: -1}, "text/html", true},
		"no call":                {call(message.HTTP2, "application/json"), &message.Response{Body: body, Length: -1}, "application/grpc", false},
		"nobody to tell it over": {call(message.HTTP11, "application/grpc"), &message.Response{Body: body, Length: -1}, "application/grpc", false},
	} {
		if c.r != nil {
			c.r.Fields.Add("Content-Type", c.kind)
		}
		before := message.Response{}
		if c.r != nil {
			before = *c.r
		}
		c.x.Response = c.r
		pipeline.EndCall(c.x, c.told)
		if c.r != nil && (c.r.Body != before.Body || c.r.Trailer != nil || c.r.Length != before.Length) {
			t.Errorf("%s: %+v", name, c.r)
		}
	}
	x := call(message.HTTP11, "application/grpc")
	x.Response = &message.Response{Status: 200, Body: message.Text("abc"), Length: -1}
	x.Response.Fields.Add("Content-Type", "application/grpc")
	pipeline.EndCall(x, true)
	if got := message.Buffered(x.Response.Body); got != 3 {
		t.Errorf("%d bytes are there", got)
	}
	if _, err := io.Copy(io.Discard, x.Response.Body); err != nil || x.Response.Trailer() != nil {
		t.Errorf("%v, %s", err, lines(x.Response.Trailer()))
	}
}

// TestWatchOfACall tells what the client hears of each time that is over.
func TestWatchOfACall(t *testing.T) {
	limits := model.RouteTimeouts{Response: 2 * time.Second, Idle: 5 * time.Second, IdleStream: 5 * time.Second, Total: 20 * time.Second}
	for name, c := range map[string]struct {
		called time.Duration // 0: not
		sent   bool
		head   bool
		body   int // bytes of it
		want   rpc.Code
		after  time.Duration
	}{
		"the client's own time":           {time.Second, true, false, 0, rpc.DeadlineExceeded, time.Second},
		"the client's own, in a stream":   {time.Second, true, true, 1, rpc.DeadlineExceeded, time.Second},
		"the route's, for the head":       {time.Minute, true, false, 0, rpc.DeadlineExceeded, 2 * time.Second},
		"the route's, of a stream":        {time.Minute, true, true, 0, rpc.Unavailable, 5 * time.Second},
		"the route's, all after a head":   {0, false, true, 0, rpc.DeadlineExceeded, 20 * time.Second},
		"the route's, all in all":         {0, false, true, 1, rpc.Unavailable, 20 * time.Second},
		"the route's, all before a head":  {0, false, false, 0, rpc.DeadlineExceeded, 20 * time.Second},
		"the client's, later than theirs": {time.Minute, false, true, 1, rpc.Unavailable, 20 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var w pipeline.Watch
			start := time.Now()
			w.Begin(limits, start)
			if c.called > 0 {
				w.Bound(start.Add(c.called))
			}
			if c.sent {
				w.Sent(time.Now())
			}
			if c.head {
				w.Answered(time.Now(), true)
			}
			if c.body > 0 {
				w.Came(c.body)
				w.Await()
			}
			for w.Expired() == nil {
				time.Sleep(500 * time.Millisecond)
				if !c.sent {
					w.Touch()
				}
			}
			e := pipeline.AsError(w.Expired())
			if took := time.Since(start); e.Word != pipeline.UpstreamTimeout || e.Code != c.want || took != c.after {
				t.Errorf("%s: %s after %v: %v", name, e.Code, took, e)
			}
		})
	}
}
