package keyset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/pemfile"
	"sluice/internal/token"
)

// The bounds of one fetch.
const (
	fetchTime    = 4 * time.Second // less than MaxWait
	largest      = 1 << 20
	largestHead  = 64 << 10
	mostRedirect = 5
)

// answer is what an issuer has answered.
type answer struct {
	*token.Document
	lifetime time.Duration // until it is asked again
}

// client asks one issuer.
type client struct {
	url  string
	http *http.Client
}

// newClient returns the client of settings, which were checked. It keeps no connection:
// one in ten minutes is no cost.
func newClient(s Settings) *client {
	transport := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: fetchTime}).DialContext,
		TLSClientConfig:        (&pemfile.Client{CA: s.CA}).Config(),
		DisableKeepAlives:      true,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: largestHead,
	}
	return &client{s.URL, &http.Client{Transport: transport, CheckRedirect: redirect, Timeout: fetchTime}}
}

// redirect follows a few redirections, and none that leaves TLS.
func redirect(request *http.Request, via []*http.Request) error {
	switch {
	case len(via) > mostRedirect:
		return errors.New("redirected too often")
	case via[len(via)-1].URL.Scheme == "https" && request.URL.Scheme != "https":
		return errors.New("redirected from https to " + request.URL.Scheme)
	}
	return nil
}

// Get returns what is served at a URL: the body of a 200, of 1 MiB at most, and the head.
func Get(ctx context.Context, client *http.Client, url, accept string) (data []byte, head http.Header, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the status is %d", response.StatusCode)
	}
	data, err = io.ReadAll(io.LimitReader(response.Body, largest+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(data) > largest:
		return nil, nil, fmt.Errorf("the body is larger than %d MiB", largest>>20)
	}
	return data, response.Header, nil
}

// fetch asks for the keys.
func (c *client) fetch(ctx context.Context) (*answer, error) {
	data, head, err := Get(ctx, c.http, c.url, "application/jwk-set+json, application/json")
	if err != nil {
		return nil, err
	}
	document, err := token.ReadDocument(data, false)
	if err != nil {
		return nil, fmt.Errorf("the body %w", err)
	}
	return &answer{document, lifetime(head)}, nil
}

// lifetime is when to ask again: a little before the answer is stale (RFC 9111 4.2).
func lifetime(fields http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.Join(fields.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return least
		case "max-age":
			seconds, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 64)
			if err != nil || seconds < 0 {
				return least
			}
			age, err := strconv.ParseInt(fields.Get("Age"), 10, 64)
			if err != nil || age < 0 {
				age = 0
			}
			// Both are bounded before they are times, so that neither overflows.
			left := min(seconds, int64(most/time.Second)*2) - min(age, int64(most/time.Second)*2)
			return min(most, max(least, time.Duration(left)*time.Second*9/10))
		}
	}
	return usual
}
