package e2e

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// polyglot is a gateway that speaks everything, with endpoints that do what the
// path of a request says.
type polyglot struct {
	*gatewaytest.Gateway
	*parlour
	config string
	roots  *x509.CertPool
}

// polyglotHost is the name in its certificate.
const polyglotHost = "polyglot.test"

func startPolyglot(t *testing.T) *polyglot {
	t.Helper()
	cert, key := selfSigned(t, polyglotHost)
	text, err := os.ReadFile(cert)
	p := &polyglot{parlour: newParlour(t), roots: x509.NewCertPool()}
	if err != nil || !p.roots.AppendCertsFromPEM(text) {
		t.Fatalf("the certificate is none: %v", err)
	}
	secure := ""
	if gatewaytest.Engine() != gatewaytest.Standard {
		secure = fmt.Sprintf(`websecure: {address: "127.0.0.1:0", protocols: [h1, h2, h3], timeouts: *timeouts, limits: *limits, tls: {certificates: [{cert: %q, key: %q}]}}`, cert, key)
	}
	silent := gatewaytest.NewScripted(t, func(_ net.Conn, in *bufio.Reader) { discard(in) })
	after := func(answer string, stays bool) string {
		return gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
			if _, err := gatewaytest.ReadHead(in); err != nil {
				return
			}
			_, _ = io.WriteString(conn, answer) // the client tells what it got
			if stays {
				discard(in)
			}
		}).URL
	}
	refused, half := gatewaytest.Refused(t), "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
	closes, babbles, cuts, stalls := after("", false), after("hello\r\n\r\n", false), after(half, false), after(half, true)
	p.config = fmt.Sprintf(`
listeners:
  web: {address: "127.0.0.1:0", timeouts: &timeouts {min_body_rate: 0}, limits: &limits {header_bytes: 8KiB, headers: 40, uri_bytes: 4KiB, body: 8MiB}}
  %[1]s
admin: {address: "127.0.0.1:0", name: polyglot}
global: [{headers: {response: {set: {X-Route: "{route}"}}}}]
upstreams:
  parlour: {endpoints: [%[2]q]}
  silent: {endpoints: [%[3]q], timeouts: {response_header: 100ms}}
  patient: {endpoints: [%[3]q]}
  refused: {endpoints: [%[4]q]}
  closes: {endpoints: [%[5]q]}
  babbles: {endpoints: [%[6]q]}
  cuts: {endpoints: [%[7]q]}
  stalls: {endpoints: [%[8]q]}
  narrow: {endpoints: [%[2]q], pool: {max_connections_per_endpoint: 1, max_pending: 0}}
routes:
%[9]s`, secure, p.url, silent.URL, refused, closes, babbles, cuts, stalls, polyglotRoutes(p.url))
	p.Gateway = gatewaytest.Start(t, p.config)
	return p
}

func polyglotRoutes(url string) string {
	return fmt.Sprintf(`
  - {id: world, match: {path: /world}, respond: {body: world 0}}
  - {id: echo, match: {path_prefix: /echo}, upstream: parlour}
  - {id: logged, match: {path: "/logged/{name}"}, upstream: parlour, rewrite: {path: "/echo/{name}"}}
  - {id: crowd, match: {path_prefix: /crowd}, strip_prefix: true, upstream: parlour}
  - {id: answers, match: {path_prefix: /answers}, upstream: parlour}
  - {id: bodies, match: {path_prefix: /bodies}, upstream: parlour}
  - {id: streams, match: {path_prefix: /streams}, upstream: parlour}

  - {id: by-prefix, match: {path_prefix: /route}, respond: {status: 200}}
  - {id: by-host, match: {hosts: [api.test], path_prefix: /route}, respond: {status: 200}}
  - {id: by-wildcard, match: {hosts: ["*.wild.test"], path_prefix: /route}, respond: {status: 200}}
  - {id: by-path, match: {path: /route/exact}, respond: {status: 200}}
  - {id: by-pattern, match: {path: "/route/users/{id}"}, respond: {status: 200, body: "user {id}"}}
  - {id: by-regex, match: {path_regex: "^/version/v[0-9]+/"}, respond: {status: 200}}
  - {id: by-method, match: {path_prefix: /route, methods: [PUT]}, respond: {status: 200}}
  - {id: by-header, match: {path_prefix: /route, headers: {X-Gray: "true"}}, respond: {status: 200}}
  - {id: by-query, match: {path_prefix: /route, query: {debug: "1"}}, respond: {status: 200}}
  - {id: by-cookie, match: {path_prefix: /route, cookies: {beta: "yes"}}, respond: {status: 200}}
  - {id: reads, match: {path: /reads, methods: [GET]}, upstream: parlour, rewrite: {path: /answers/plain}}
  - {id: rewritten, match: {path: "/members/{id}/{rest...}"}, upstream: parlour, rewrite: {path: "/echo/{rest}/of/{id}", host: inner.test}}
  - {id: stripped, match: {path_prefix: /strip}, strip_prefix: true, upstream: "%s/echo/base"}
  - {id: moved, match: {path: /old}, redirect: {to: /new, status: 308}}
  - {id: fixed, match: {path: /fixed}, respond: {status: 418, body: "{method} {host} {path} {query}", headers: {Content-Type: text/x-tea}}}

  - {id: denied, match: {path: /denied}, upstream: parlour, middleware: [{ip_filter: {deny: [127.0.0.0/8]}}]}
  - {id: small, match: {path: /small}, upstream: parlour, middleware: [{body_limit: {max: 10}}]}
  - {id: refused, match: {path: /refused}, upstream: refused}
  - {id: closes, match: {path: /closes}, upstream: closes}
  - {id: babbles, match: {path: /babbles}, upstream: babbles}
  - {id: narrow, match: {path_prefix: /narrow}, strip_prefix: true, upstream: narrow}
  - {id: silent, match: {path: /silent}, upstream: silent}
  - {id: late, match: {path: /late}, upstream: patient, timeout: 100ms}
  - {id: idle, match: {path: /idle}, upstream: patient, timeout: 0, idle_timeout: 100ms}
  - {id: total, match: {path: /total}, upstream: patient, timeout: 0, total_timeout: 100ms}
  - {id: cuts, match: {path: /cuts}, upstream: cuts}
  - {id: stalls, match: {path: /stalls}, upstream: stalls, idle_timeout: 1s}
  - {id: ends, match: {path: /ends}, upstream: stalls, total_timeout: 1s}
`, url)
}

// counted is Metric, without the way through the admin API: what is asked for here
// is asked for often.
func (p *polyglot) counted(name string, labels ...string) (total float64) {
	families, err := p.Gatherer().Gather()
	if err != nil {
		return -1 // which no test waits for
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			has := map[string]string{}
			for _, label := range metric.GetLabel() {
				has[label.GetName()] = label.GetValue()
			}
			all := true
			for i := 0; i < len(labels); i += 2 {
				all = all && has[labels[i]] == labels[i+1]
			}
			if all {
				total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return total
}

// trust is what a client needs to believe the gateway.
func (p *polyglot) trust() *tls.Config {
	return &tls.Config{RootCAs: p.roots, ServerName: polyglotHost, MinVersion: tls.VersionTLS12}
}

// parlour is the endpoint of a polyglot.
type parlour struct {
	url  string
	held chan *held
	feed *feed
}

// held is a request that the endpoint holds until the test lets it go.
type held struct {
	id   string        // of the request
	free chan struct{} // the test closes it to have it answered
	gone chan struct{} // closed when the gateway gives it up
}

func newParlour(t *testing.T) *parlour {
	t.Helper()
	p := &parlour{held: make(chan *held), feed: &feed{last: make(chan struct{})}}
	mux := http.NewServeMux()
	mux.HandleFunc("/echo/", echoed)
	mux.HandleFunc("/answers/plain", plainly)
	mux.HandleFunc("/answers/none", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Kept", "1")
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("/answers/same", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"same"`)
		w.WriteHeader(http.StatusNotModified)
	})
	mux.HandleFunc("/answers/hints", hinting)
	mux.HandleFunc("/answers/trailers", trailing)
	mux.HandleFunc("/bodies/sum", func(w http.ResponseWriter, r *http.Request) {
		if sha, size, err := sumOf(r.Body); err == nil { // else the gateway left
			fmt.Fprintf(w, "%s %d %s", r.Method, size, sha)
		}
	})
	mux.HandleFunc("/bodies/file", func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.ParseInt(r.URL.Query().Get("size"), 10, 64) // 0 shows in what the client gets
		if r.URL.Query().Get("length") != "" {
			w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		}
		_, _ = io.Copy(w, newContent(7, size)) // the client tells what it got
	})
	mux.HandleFunc("/streams/talk", talking)
	mux.HandleFunc("/streams/events", p.feed.events)
	mux.HandleFunc("/streams/socket", p.feed.socket)
	mux.HandleFunc("/streams/hold", p.hold)
	mux.HandleFunc("/hold", p.hold)
	p.url = gatewaytest.NewHTTP(t, mux)
	return p
}

// echoed answers with the request as it came.
func echoed(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway gave the request up
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(gatewaytest.Echo{Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header, Body: string(body)})
}

// plainly answers with fields of every kind.
func plainly(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Set-Cookie"] = []string{"a=1; Path=/", "b=2"}
	h.Set("Content-Type", "text/x-plain")
	h.Set("Content-Length", "5")
	h.Set("Connection", "X-Gone")
	h.Set("X-Gone", "1")
	h.Set("Keep-Alive", "timeout=5")
	h.Set("Proxy-Connection", "keep-alive")
	h.Set("X-Stays", "1")
	_, _ = io.WriteString(w, "plain") // the client tells what it got
}

// hinting tells twice what is to come (RFC 8297).
func hinting(w http.ResponseWriter, _ *http.Request) {
	for _, link := range []string{"</one.css>; rel=preload", "</two.css>; rel=preload"} {
		w.Header().Set("Link", link)
		w.WriteHeader(http.StatusEarlyHints)
	}
	w.Header().Set("Link", "</last.css>; rel=preload")
	_, _ = io.WriteString(w, "hinted") // the client tells what it got
}

// trailing tells the trailers that came, in trailers.
func trailing(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway gave the request up
	}
	w.Header().Set("Trailer", "X-Announced")
	_, _ = w.Write(body) // the client tells what it got
	w.Header().Set("X-Announced", r.Trailer.Get("X-Sum"))
	w.Header().Set(http.TrailerPrefix+"X-Late", strings.Join(r.Trailer["X-Other"], " and "))
}

// talking answers each word at once.
func talking(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if rc.EnableFullDuplex() != nil || rc.Flush() != nil {
		return // the gateway left
	}
	buffer := make([]byte, 100)
	for {
		n, err := r.Body.Read(buffer)
		if n > 0 {
			if _, err := fmt.Fprintf(w, "%s!", buffer[:n]); err != nil || rc.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold tells the test of the request and waits for it. With ?begin the answer has
// begun before; the body is read meanwhile.
func (p *parlour) hold(w http.ResponseWriter, r *http.Request) {
	h := &held{r.Header.Get("X-Request-Id"), make(chan struct{}), make(chan struct{})}
	if r.URL.RawQuery == "begin" {
		_, _ = io.WriteString(w, "begun ")
		_ = http.NewResponseController(w).Flush() // the client tells if it did not come
	}
	select {
	case p.held <- h:
	case <-r.Context().Done():
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		close(h.gone)
		return
	}
	select {
	case <-h.free:
		_, _ = io.WriteString(w, "held") // the client tells if it did not come
	case <-r.Context().Done():
		close(h.gone)
	}
}
