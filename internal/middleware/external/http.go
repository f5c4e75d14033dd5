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
	// largestKept bounds the text of a decision that is remembered, in bytes.
	largestKept = 8 << 10
	largestHead = 64 << 10
	// mostConnections bounds those to a service that is slow: past it requests wait for
	// one, within their time.
	mostConnections = 256
)

// httpDecider asks by HTTP.
type httpDecider struct {
	url       string
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
	return &httpDecider{s.URL, transport, client}
}

func (d *httpDecider) disconnect() { d.transport.CloseIdleConnections() }

func (d *httpDecider) request(x *pipeline.Exchange, s *settings, body *copied) request {
	header, id, via := told(x, s.HTTP.Told), x.ID, viaOf(x.Request.Fields)
	if body != nil {
		header[partialBody] = []string{body.partially()}
	}
	return request{
		sum:    func() keyed.Digest { return sumOf(header, body) },
		decide: func(ctx context.Context) (*decision, error) { return d.decide(ctx, s, header, id, via, body) },
	}
}

// told is the header of a request to the service, but for the id and the way, by which it
// does not decide.
func told(x *pipeline.Exchange, names []string) http.Header {
	r, h := x.Request, http.Header{"User-Agent": {"sluice"}}
	for _, name := range names {
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
	if hops := forwardedFor(x); hops != "" {
		h["X-Forwarded-For"] = []string{hops}
	}
	if client := x.ClientText(); client != "" {
		h["X-Real-Ip"] = []string{client}
	}
	return h
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
	hops := slices.Collect(x.Request.Fields.List(message.XForwardedFor))
	if peer := x.PeerText(); peer != "" {
		hops = append(hops, peer)
	}
	return strings.Join(hops, ", ")
}

func sumOf(header http.Header, body *copied) keyed.Digest {
	h := newHash()
	if body != nil {
		h.text(body.text)
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		h.text(name)
		h.list(header[name])
	}
	return h.sum()
}

func (d *httpDecider) decide(ctx context.Context, s *settings, header http.Header, id, via string, body *copied) (*decision, error) {
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, content = http.MethodPost, strings.NewReader(body.text)
	}
	request, err := http.NewRequestWithContext(ctx, method, d.url, content)
	if err != nil {
		return nil, err
	}
	request.Header = header
	request.Header["Via"] = []string{via}
	if body != nil && header["Idempotency-Key"] == nil {
		// It is not sent, and lets the client ask again where a connection that was idle died.
		request.Header["Idempotency-Key"] = []string{}
	}
	if id != "" {
		request.Header["X-Request-Id"] = []string{id}
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
		return allowing(s, response)
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
func allowing(s *settings, response *http.Response) (*decision, error) {
	made := &decision{allowed: true, alone: unstorable(response)}
	for _, name := range s.HTTP.ToUpstream {
		for _, value := range response.Header.Values(name) {
			made.request = append(made.request, edit{add, name, value}) // those of the request are gone already
		}
	}
	for _, name := range s.HTTP.ToClient {
		for _, value := range response.Header.Values(name) {
			made.response = append(made.response, edit{add, name, value})
			made.alone = true // as a cookie of one client
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
	made := &decision{status: response.StatusCode, alone: unstorable(response) || response.Header.Get("Set-Cookie") != ""}
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
	made.alone = made.alone || err != nil // others may get all of it
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
