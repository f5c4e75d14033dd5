package server_test

import (
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// sorted is a list of fields without what the adapter does not keep: the
// spelling of names, the order of the lines but of one name, and that of Trailer.
func sorted(fields message.Fields) message.Fields {
	fields = fields.Clone()
	for i := range fields {
		field := &fields[i]
		field.Name = http.CanonicalHeaderKey(field.Name)
		if field.ID == message.Trailer {
			names := strings.Split(field.Value, ", ")
			slices.Sort(names)
			field.Value = strings.Join(names, ", ")
		}
	}
	slices.SortStableFunc(fields, func(a, b message.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

func TestRequests(t *testing.T) {
	tests := []struct {
		name string
		raw  string
		want message.Request
		body string
	}{
		{
			name: "origin form, lines in order",
			raw:  "GET /a%2fb//c/../%7e?q=%zz;&x HTTP/1.1\r\nHost: Example.com:80\r\nx-b: 2\r\nX-A: 1\r\nX-B: 1\r\nUser-Agent: raw\r\n\r\n",
			want: message.Request{
				Protocol: message.HTTP11, Method: "GET", Scheme: "http", Target: "/a%2fb//c/../%7e?q=%zz;&x", Host: "Example.com:80", Path: "/a%2fb//c/../%7e", Query: "?q=%zz;&x",
				Fields: message.Fields{{Name: "User-Agent", Value: "raw", ID: message.UserAgent}, {Name: "X-A", Value: "1"}, {Name: "X-B", Value: "2"}, {Name: "X-B", Value: "1"}},
			},
		},
		{
			name: "absolute form, whose authority wins",
			raw:  "GET http://a.example:8080/p/%41?x=//y HTTP/1.1\r\nHost: other\r\n\r\n",
			want: message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Target: "http://a.example:8080/p/%41?x=//y", Host: "a.example:8080", Path: "/p/%41", Query: "?x=//y", Fields: message.Fields{}},
		},
		{
			name: "absolute form without a path",
			raw:  "GET http://a.example?x HTTP/1.1\r\nHost: a.example\r\n\r\n",
			want: message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Target: "http://a.example?x", Host: "a.example", Path: "/", Query: "?x", Fields: message.Fields{}},
		},
		{
			name: "absolute form with nothing behind the authority",
			raw:  "GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
			want: message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Target: "http://a.example", Host: "a.example", Path: "/", Fields: message.Fields{}},
		},
		{
			name: "two slashes are a path, not an authority",
			raw:  "GET //evil/x? HTTP/1.1\r\nHost: good\r\n\r\n",
			want: message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Target: "//evil/x?", Host: "good", Path: "//evil/x", Query: "?", Fields: message.Fields{}},
		},
		{
			name: "absolute form of the asterisk",
			raw:  "OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n",
			want: message.Request{Protocol: message.HTTP11, Method: "OPTIONS", Scheme: "http", Target: "http://b", Host: "b", Path: "*", Fields: message.Fields{}},
		},
		{
			name: "asterisk form",
			raw:  "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
			want: message.Request{Protocol: message.HTTP11, Method: "OPTIONS", Scheme: "http", Target: "*", Host: "a", Path: "*", Fields: message.Fields{}},
		},
		{
			name: "HTTP/1.0 without Host",
			raw:  "GET / HTTP/1.0\r\n\r\n",
			want: message.Request{Protocol: message.HTTP10, Method: "GET", Scheme: "http", Target: "/", Path: "/", Fields: message.Fields{}},
		},
		{
			name: "a body of known length",
			raw:  "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
			want: message.Request{Protocol: message.HTTP11, Method: "POST", Scheme: "http", Target: "/p", Host: "a", Path: "/p", Length: 5, Fields: message.Fields{}},
			body: "hello",
		},
		{
			name: "an empty body",
			raw:  "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
			want: message.Request{Protocol: message.HTTP11, Method: "POST", Scheme: "http", Target: "/p", Host: "a", Path: "/p", Fields: message.Fields{}},
		},
		{
			name: "chunks, with an announced trailer",
			raw:  "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-A\r\n\r\n5;ext=1\r\nhello\r\n3\r\n, w\r\n0\r\nX-Sum: 1\r\nX-Late: 2\r\n\r\n",
			want: message.Request{Protocol: message.HTTP11, Method: "POST", Scheme: "http", Target: "/p", Host: "a", Path: "/p", Length: message.Unknown, Fields: message.Fields{{Name: "Trailer", Value: "X-A, X-Sum", ID: message.Trailer}}},
			body: "hello, w",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got message.Request
			var peer netip.AddrPort
			var body string
			var before, after message.Fields
			f := start(t, func(x *pipeline.Exchange) error {
				got, peer = *x.Request, x.Peer
				trailer := x.Request.Trailer
				if trailer == nil {
					trailer = func() message.Fields { return nil }
				}
				if x.Request.Body != nil {
					before = trailer()
					all, err := io.ReadAll(x.Request.Body)
					if err != nil {
						return err
					}
					body, after = string(all), trailer()
				}
				x.Response = reply(200, "ok")
				return nil
			})
			c := f.dial().send(test.raw)
			if response, _ := c.answer("GET"); response.StatusCode != 200 {
				t.Fatalf("status %d", response.StatusCode)
			}
			x := f.next(t)
			if (got.Body != nil) != (got.Length != 0) || got.Trailer == nil && got.Length == message.Unknown || got.Trailer != nil && got.Length == 0 {
				t.Errorf("body %v and trailer %v with length %d", got.Body != nil, got.Trailer != nil, got.Length)
			}
			got.Body, got.Trailer, got.Fields = nil, nil, sorted(got.Fields)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if body != test.body || x.BytesIn != int64(len(test.body)) || x.BytesOut != 2 {
				t.Errorf("body %q, %d bytes in, %d out", body, x.BytesIn, x.BytesOut)
			}
			if peer.String() != c.LocalAddr().String() {
				t.Errorf("peer %v, want %v", peer, c.LocalAddr())
			}
			var trailers message.Fields
			if strings.Contains(test.raw, "X-Late") {
				trailers = message.Fields{{Name: "X-Late", Value: "2"}, {Name: "X-Sum", Value: "1"}}
			}
			if diff := cmp.Diff(trailers, sorted(after)); diff != "" || before != nil {
				t.Error(before, diff)
			}
		})
	}
}

func TestTheListenerIsTheCurrentOne(t *testing.T) {
	f := start(t, func(x *pipeline.Exchange) error {
		x.Response = reply(200, x.Listener.Name)
		return nil
	})
	c := f.dial().send(get("/"))
	if _, body := c.answer("GET"); body != "web" {
		t.Errorf("served by %q", body)
	}
	next := *f.model
	next.Name = "renamed"
	f.listener.Serve(&next, nil)
	if response, body := c.send(get("/")).answer("GET"); body != "renamed" || response.Close {
		t.Errorf("served by %q, closes: %v", body, response.Close)
	}
	if status := f.listener.Status(); status.Name != "renamed" || status.Connections != 1 {
		t.Errorf("%+v", status)
	}
}

func TestWhatNetHTTPLetsPassButIsNoHTTP1(t *testing.T) {
	f := start(t, text("never"))
	c := f.dial().send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	if response, body := c.answer("GET"); response.StatusCode != 505 || !strings.Contains(body, `"bad_version"`) {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	c.ends()
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.BadVersion {
		t.Errorf("%v", x.Err)
	}
}
