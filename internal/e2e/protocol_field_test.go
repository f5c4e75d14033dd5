package e2e

import (
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (s *voice) forwards(t *testing.T) {
	r := s.request(t, ask{method: http.MethodPost, target: "/echo/fields", host: "shop.test:81", body: "body", header: map[string]string{
		"Cookie": "a=1; b=2; c=3", "User-Agent": "speaker/1", "Via": "1.0 first",
		"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "gopher", "X-Forwarded-Host": "evil.test", "X-Forwarded-Whatever": "1",
		"Forwarded": "for=6.6.6.6", "X-Real-Ip": "6.6.6.6", "X_Real_Ip": "7.7.7.7", "X-Request-Id": "mine", "Proxy-Authorization": "Basic eDp5",
	}})
	r.Header["X-Many"] = []string{"1", "2", "1"}
	for name, value := range s.hops {
		r.Header.Set(name, value)
	}
	answer := try(s, r).whole(t)
	e := answer.echo(t)
	if e.Method != http.MethodPost || e.Host != "shop.test:81" || e.Body != "body" {
		t.Errorf("the endpoint was sent %q by %s for %s", e.Body, e.Method, e.Host)
	}
	id := answer.Header.Get("X-Request-Id")
	if len(id) != 36 {
		t.Errorf("the request id is %q", id)
	}
	want := http.Header{
		"Cookie": {"a=1; b=2; c=3"}, "User-Agent": {"speaker/1"}, "Via": {"1.0 first, " + s.via + " polyglot"}, "X-Many": {"1", "2", "1"}, "Content-Length": {"4"},
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {s.scheme}, "X-Forwarded-Host": {"shop.test:81"}, "X-Real-Ip": {"127.0.0.1"}, "X-Request-Id": {id},
		"Te": {"trailers"}, "Connection": {"TE"}, // of the hop to the endpoint
	}
	if diff := cmp.Diff(want, e.Header); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func (s *voice) answers(t *testing.T) {
	r := s.do(t, ask{target: "/answers/plain"})
	if r.StatusCode != http.StatusOK || r.body != "plain" || r.ContentLength != 5 {
		t.Errorf("%d %q of %d", r.StatusCode, r.body, r.ContentLength)
	}
	want := http.Header{
		"Set-Cookie": {"a=1; Path=/", "b=2"}, "Content-Type": {"text/x-plain"}, "Content-Length": {"5"}, "X-Stays": {"1"}, "Via": {"1.1 polyglot"}, "X-Route": {"answers"},
		"Date": r.Header["Date"], "X-Request-Id": r.Header["X-Request-Id"],
	}
	if s.scheme == "https" && s.protocol != "HTTP/3" {
		_, port, _ := net.SplitHostPort(s.Addr(s.listener).String())
		want["Alt-Svc"] = []string{`h3=":` + port + `"; ma=86400`}
	}
	if diff := cmp.Diff(want, r.Header); diff != "" || len(r.Header["Date"]) != 1 || len(r.Header["X-Request-Id"]) != 1 {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func (s *voice) answersWithoutBody(t *testing.T) {
	for _, test := range []struct {
		ask    ask
		status int
		field  string // and its value
		value  string
		length string // what Content-Length is
	}{
		{ask{method: http.MethodHead, target: "/answers/plain"}, http.StatusOK, "X-Stays", "1", "5"},
		{ask{method: http.MethodHead, target: "/reads"}, http.StatusOK, "X-Route", "reads", "5"},
		{ask{method: http.MethodHead, target: "/fixed"}, http.StatusTeapot, "X-Route", "fixed", "19"},
		{ask{method: http.MethodHead, target: "/nowhere"}, http.StatusNotFound, "Content-Type", "application/problem+json", "*"},
		{ask{target: "/answers/none"}, http.StatusNoContent, "X-Kept", "1", ""},
		{ask{method: http.MethodDelete, target: "/answers/none"}, http.StatusNoContent, "X-Kept", "1", ""},
		{ask{method: http.MethodOptions, target: "/answers/none"}, http.StatusNoContent, "X-Kept", "1", ""},
		{ask{target: "/answers/same", header: map[string]string{"If-None-Match": `"same"`}}, http.StatusNotModified, "Etag", `"same"`, ""},
	} {
		r := s.do(t, test.ask)
		if r.StatusCode != test.status || r.Header.Get(test.field) != test.value || r.body != "" || r.Close {
			t.Errorf("%+v: %d %q with %v, close %v", test.ask, r.StatusCode, r.body, r.Header, r.Close)
		}
		if length := r.Header.Get("Content-Length"); length != test.length && (test.length != "*" || length == "") {
			t.Errorf("%+v: the length is %q, want %q", test.ask, length, test.length)
		}
	}
}

func (s *voice) hints(t *testing.T) {
	var hints []string
	r := s.request(t, ask{target: "/answers/hints"})
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(status int, fields textproto.MIMEHeader) error {
		if status == http.StatusEarlyHints {
			hints = append(hints, fields.Get("Link"))
		}
		return nil
	}}))
	answer := try(s, r).whole(t)
	if diff := cmp.Diff([]string{"</one.css>; rel=preload", "</two.css>; rel=preload"}, hints); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
	if answer.StatusCode != http.StatusOK || answer.body != "hinted" || len(answer.Header["Link"]) != 1 || answer.Header.Get("Link") != "</last.css>; rel=preload" {
		t.Errorf("then %d %q with %v", answer.StatusCode, answer.body, answer.Header)
	}
}

func (s *voice) trails(t *testing.T) {
	r := s.request(t, ask{method: http.MethodPost, target: "/answers/trailers", body: "body", header: map[string]string{"Te": "trailers"}})
	r.ContentLength = -1
	r.Trailer = http.Header{"X-Sum": {"17"}, "X-Other": {"one", "two"}}
	answer := try(s, r).whole(t)
	if answer.StatusCode != http.StatusOK || answer.body != "body" {
		t.Errorf("%d %q", answer.StatusCode, answer.body)
	}
	if diff := cmp.Diff(http.Header{"X-Announced": {"17"}, "X-Late": {"one and two"}}, answer.Trailer); diff != "" {
		t.Errorf("trailers (-want +got):\n%s", diff)
	}
	if _, early := answer.Header["X-Announced"]; early {
		t.Error("a trailer came with the head")
	}
}
