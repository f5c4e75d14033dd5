package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/keyed"
	"sluice/internal/message"
	"sluice/internal/pipeline"
)

const (
	// largestBody bounds what a client is told of a refusal, in bytes; a longer body is
	// left out.
	largestBody = 64 << 10
	// largestKept bounds the body of a refusal that is remembered.
	largestKept = 4 << 10
	largestHead = 64 << 10
	// mostConnections bounds those to a service that is slow: past it questions wait for
	// one, within their time.
	mostConnections = 256
)

// httpDecider asks by HTTP.
type httpDecider struct {
	*httpSettings

	transport *http.Transport
	client    *http.Client
}

func newHTTPDecider(s *httpSettings, timeout time.Duration) *httpDecider {
	transport := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
		TLSHandshakeTimeout:    timeout,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    64,
		MaxConnsPerHost:        mostConnections,
		IdleConnTimeout:        55 * time.Second,
		DisableCompression:     true, // a body passes as it comes
		MaxResponseHeaderBytes: largestHead,
		TLSClientConfig:        s.TLS.Config(),
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // they are the client's
	}
	return &httpDecider{s, transport, client}
}

func (d *httpDecider) disconnect() { d.transport.CloseIdleConnections() }

// httpQuestion is the header of a request to the service.
type httpQuestion struct {
	header http.Header
	id     string // of the request, by which it does not decide
}

func (d *httpDecider) question(x *pipeline.Exchange) question {
	r, h := x.Request, http.Header{"User-Agent": {"sluice"}}
	for _, name := range d.Told {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		var values []string
		for value := range r.Fields.Values(name) {
			values = append(values, value)
		}
		if values != nil {
			h[canonical] = values
		}
	}
	h["X-Forwarded-Method"] = []string{r.Method}
	h["X-Forwarded-Uri"] = []string{r.Path + r.Query}
	h["X-Forwarded-Host"] = []string{forwardedHost(r)}
	h["X-Forwarded-Proto"] = []string{forwardedProto(r)}
	if way := forwardedFor(x); way != "" {
		h["X-Forwarded-For"] = []string{way}
	}
	if client := x.ClientText(); client != "" {
		h["X-Real-Ip"] = []string{client}
	}
	return &httpQuestion{h, x.ID}
}

// forwardedHost, forwardedProto and forwardedFor are what the upstream is told, too.
func forwardedHost(r *message.Request) string {
	if host := r.Fields.Get(message.XForwardedHost); host != "" {
		return host
	}
	return r.Host
}

func forwardedProto(r *message.Request) string {
	if proto := r.Fields.Get(message.XForwardedProto); proto != "" {
		return proto
	}
	return r.Scheme
}

func forwardedFor(x *pipeline.Exchange) string {
	way := slices.Collect(x.Request.Fields.List(message.XForwardedFor))
	if peer := x.PeerText(); peer != "" {
		way = append(way, peer)
	}
	return strings.Join(way, ", ")
}

// sum is of all but the id.
func (q *httpQuestion) sum() keyed.Digest {
	h := newHash()
	for _, name := range slices.Sorted(maps.Keys(q.header)) {
		h.text(name)
		h.list(q.header[name])
	}
	return h.sum()
}

func (d *httpDecider) decide(ctx context.Context, s *settings, q question) (*decision, error) {
	asked, ok := q.(*httpQuestion)
	if !ok {
		panic("BUG: a question of another protocol")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, nil)
	if err != nil {
		return nil, err
	}
	request.Header = asked.header
	if asked.id != "" {
		request.Header["X-Request-Id"] = []string{asked.id}
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, bare(err)
	}
	defer func() { _ = response.Body.Close() }() // what was read of it counts
	switch {
	case response.StatusCode < 200 || response.StatusCode > 599:
		return nil, fmt.Errorf("the service answers with the status %d", response.StatusCode)
	case response.StatusCode < 300:
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, largestBody)) // so that the connection can be used again
		return d.allowing(s, response)
	}
	return refusing(response), nil
}

// bare is a client's error without the URL, whose query may have a secret in it.
func bare(err error) error {
	var detail *url.Error
	if errors.As(err, &detail) {
		return detail.Err
	}
	return err
}

// allowing is what an answer that allows says.
func (d *httpDecider) allowing(s *settings, response *http.Response) (*decision, error) {
	made := &decision{allowed: true, fleeting: unstorable(response)}
	for _, name := range d.ToUpstream {
		for _, value := range response.Header.Values(name) {
			made.request = append(made.request, edit{add, name, value}) // those of the request are gone already
		}
	}
	for _, name := range d.ToClient {
		for _, value := range response.Header.Values(name) {
			made.response = append(made.response, edit{add, name, value})
			made.fleeting = true // as a cookie of one client
		}
	}
	err := made.identify(s.Consumer, s.Groups, response.Header.Values)
	return made, err
}

// unstorable tells whether a service forbids to remember an answer (RFC 9111 5.2.2).
func unstorable(response *http.Response) bool {
	for _, value := range response.Header.Values("Cache-Control") {
		for directive := range strings.SplitSeq(value, ",") {
			if name, _, _ := strings.Cut(strings.TrimSpace(directive), "="); strings.EqualFold(name, "no-store") || strings.EqualFold(name, "no-cache") {
				return true
			}
		}
	}
	return false
}

// refusing is an answer that the client gets. Whatever is wrong with its body, it
// remains a refusal.
func refusing(response *http.Response) *decision {
	made := &decision{status: response.StatusCode, fleeting: response.StatusCode >= 500 || unstorable(response) || response.Header.Get("Set-Cookie") != ""}
	hops := response.Header.Values("Connection")
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		if !passes(name, hops) {
			continue
		}
		for _, value := range response.Header[name] {
			made.fields.Add(name, value)
		}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, largestBody+1))
	if err == nil && len(body) <= largestBody && !bodiless(made.status) {
		made.body = string(body)
	} else {
		made.fields.Delete(message.ContentEncoding.String())
	}
	made.fleeting = made.fleeting || err != nil || len(body) > largestKept
	return made
}

// bodiless tells whether a status has no body (RFC 9110 15).
func bodiless(status int) bool { return status == 204 || status == 205 || status == 304 }

// passes tells whether a field of a refusal goes on to the client: it is not of the
// connection, and not the gateway's own.
func passes(name string, hops []string) bool {
	switch id := message.Lookup(name); {
	case id.OfEngine(), id == message.XRequestID, id == message.AltSvc, id == message.ProxyAuthenticate:
		return false
	}
	for _, value := range hops {
		for hop := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(hop), name) {
				return false
			}
		}
	}
	return true
}
