package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// unsent is a body that does not come, of which the head tells the length: the
// response is to come without it.
func unsent(t *testing.T, r *http.Request, length int64) {
	t.Helper()
	body, never := io.Pipe()
	t.Cleanup(func() { never.Close() })
	r.Body, r.ContentLength = body, length
}

func (s *voice) limitsBodies(t *testing.T) {
	t.Run("announced, past the listener's", func(t *testing.T) {
		r := s.request(t, ask{method: http.MethodPost, target: "/echo/x"})
		unsent(t, r, 8<<20+1)
		s.refuses(t, try(s, r).whole(t), refusal{status: 413, word: "body_too_large", closes: true})
	})
	t.Run("announced, past the route's", func(t *testing.T) {
		r := s.request(t, ask{method: http.MethodPost, target: "/small"})
		unsent(t, r, 11)
		s.refuses(t, try(s, r).whole(t), refusal{status: 413, word: "body_too_large", route: "small", closes: true})
	})
	t.Run("not announced", func(t *testing.T) {
		r := s.request(t, ask{method: http.MethodPost, target: "/small"})
		body, client := io.Pipe()
		r.Body, r.ContentLength = body, -1
		answer := begin(s, r)
		for range 11 {
			if _, err := io.WriteString(client, "x"); err != nil {
				break // the answer tells
			}
		}
		s.refuses(t, await(t, "the refusal", answer).whole(t), refusal{status: 413, word: "body_too_large", route: "small", closes: true})
		client.Close()
	})
}

func (s *voice) limitsHeaders(t *testing.T) {
	t.Run("many fields", func(t *testing.T) {
		r := s.request(t, ask{target: "/echo/x"})
		r.Header["X-Many"] = strings.Split(strings.Repeat("x", 41), "")
		s.refuses(t, try(s, r).whole(t), refusal{status: 431, word: "header_too_large", closes: true})
	})
	t.Run("a long field", func(t *testing.T) {
		r := s.request(t, ask{target: "/echo/x", header: map[string]string{"X-Long": strings.Repeat("x", 9000)}})
		if s.fits {
			// It learns of the limit with the first bytes of a connection.
			s.do(t, ask{target: "/answers/plain"})
			if c := try(s, r); c.err == nil {
				t.Errorf("a client that knows the limit sent it, and got %d", c.StatusCode)
			}
			return
		}
		s.refuses(t, try(s, r).whole(t), refusal{status: 431, word: "header_too_large", closes: true})
	})
	t.Run("a long target", func(t *testing.T) {
		s.refuses(t, s.do(t, ask{target: "/echo/" + strings.Repeat("x", 5000)}), refusal{status: 414, word: "uri_too_long", closes: true})
	})
	if e := s.do(t, ask{target: "/echo/x"}).echo(t); e.Target != "/echo/x" {
		t.Errorf("then the endpoint was asked for %s", e.Target)
	}
}
