package e2e

import (
	"net/http"
	"testing"
)

func (s *voice) routes(t *testing.T) {
	for _, test := range []struct {
		ask   ask
		route string
	}{
		{ask{target: "/route"}, "by-prefix"},
		{ask{target: "/route/any/thing"}, "by-prefix"},
		{ask{target: "/route", host: "api.test"}, "by-host"},
		{ask{target: "/route", host: "API.test:81"}, "by-host"},
		{ask{target: "/route", host: "a.b.wild.test"}, "by-wildcard"},
		{ask{target: "/route", host: "wild.test"}, "by-prefix"},
		{ask{target: "/route/exact"}, "by-path"},
		{ask{target: "/route//./exact?query"}, "by-path"},
		{ask{target: "/route/%65xact"}, "by-path"},
		{ask{target: "/version/v12/x"}, "by-regex"},
		{ask{target: "/route", method: http.MethodPut, body: "x"}, "by-method"},
		{ask{target: "/route", header: map[string]string{"X-Gray": "true"}}, "by-header"},
		{ask{target: "/route", header: map[string]string{"X-Gray": "false"}}, "by-prefix"},
		{ask{target: "/route?x=1&debug=1"}, "by-query"},
		{ask{target: "/route", header: map[string]string{"Cookie": "alpha=no; beta=yes; gamma=no"}}, "by-cookie"},
	} {
		if r := s.do(t, test.ask); r.StatusCode != http.StatusOK || r.Header.Get("X-Route") != test.route {
			t.Errorf("%+v is %d by route %q, want %s", test.ask, r.StatusCode, r.Header.Get("X-Route"), test.route)
		}
	}
	if r := s.do(t, ask{target: "/route/users/j%C3%BCrgen%2F7"}); r.body != "user jürgen/7" || r.Header.Get("X-Route") != "by-pattern" {
		t.Errorf("%q by route %s", r.body, r.Header.Get("X-Route"))
	}
}

func (s *voice) rewrites(t *testing.T) {
	for _, test := range []struct{ asked, target, host string }{
		{"/members/7/a/b?c=%zz&;d", "/echo/a/b/of/7?c=%zz&;d", "inner.test"},
		{"/members/a%2fb/", "/echo/of/a%2Fb", "inner.test"},
		{"/strip/x?y", "/echo/base/x?y", "x.test"},
		{"/strip", "/echo/base/", "x.test"},
		{"/echo/./a/../%7eb%20c", "/echo/~b%20c", "x.test"},
	} {
		if e := s.do(t, ask{target: test.asked}).echo(t); e.Target != test.target || e.Host != test.host {
			t.Errorf("for %s the endpoint was asked for %s of %s, want %s of %s", test.asked, e.Target, e.Host, test.target, test.host)
		}
	}
	if r := s.do(t, ask{target: "/old?a=b"}); r.StatusCode != http.StatusPermanentRedirect || r.Header.Get("Location") != "/new?a=b" {
		t.Errorf("%d to %q", r.StatusCode, r.Header.Get("Location"))
	}
	r := s.do(t, ask{method: http.MethodPost, target: "/fixed?a=b", body: "x"})
	if r.StatusCode != http.StatusTeapot || r.body != "POST x.test /fixed a=b" || r.Header.Get("Content-Type") != "text/x-tea" || r.ContentLength != int64(len(r.body)) {
		t.Errorf("%d %q with %v", r.StatusCode, r.body, r.Header)
	}
}
