//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
)

// mandatory are the fields that every proxy here has to send: what Sluice sends
// by itself.
var mandatory = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-Ip", "X-Request-Id", "Via"}

// verifier knows what is right: what the endpoint itself answers.
type verifier struct {
	http1, http2 *http.Client
	right        map[string][sha256.Size]byte // by path
}

func newVerifier(roots *x509.CertPool) *verifier {
	client := func(http2 bool) *http.Client {
		speaks := &http.Protocols{}
		speaks.SetHTTP1(!http2)
		speaks.SetHTTP2(http2)
		speaks.SetUnencryptedHTTP2(http2)
		return &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, Protocols: speaks,
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
		}}
	}
	return &verifier{http1: client(false), http2: client(true), right: map[string][sha256.Size]byte{}}
}

// verify sends one request of this load and looks at the whole answer.
func (v *verifier) verify(ctx context.Context, address string, l load, direct bool) error {
	method, body := http.MethodGet, []byte(nil)
	if l.upload {
		method, body = http.MethodPost, bytes.Repeat([]byte("x"), l.length)
	}
	_, text, err := v.send(ctx, method, l, l.url(address), body)
	if err != nil {
		return err
	}
	if l.upload {
		if want := fmt.Sprintf(`{"swallowed":%d}`, l.length); string(text) != want {
			return fmt.Errorf("%s %s: %.200s instead of %s", method, l.path, text, want)
		}
		return nil
	}
	if len(text) != l.length {
		return fmt.Errorf("%s %s: %d bytes instead of %d", method, l.path, len(text), l.length)
	}
	sum := sha256.Sum256(text)
	if direct {
		v.right[l.path] = sum
	} else if v.right[l.path] != sum {
		return fmt.Errorf("%s %s: another body than the endpoint's own", method, l.path)
	}
	return nil
}

// fields tells which fields a proxy adds to a request and to a response of a
// load, and holds it to the mandatory ones.
func (v *verifier) fields(ctx context.Context, address string, l load) (request, response []string, err error) {
	l.path = "/head"
	header, text, err := v.send(ctx, http.MethodGet, l, l.url(address), nil)
	if err != nil {
		return nil, nil, err
	}
	got, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return nil, nil, fmt.Errorf("what the endpoint received: %w: %.200s", err, text)
	}
	if got.Host != address {
		return nil, nil, fmt.Errorf("the endpoint received Host %q instead of %q", got.Host, address)
	}
	for name := range got.Header {
		if name != "User-Agent" && name != "Authorization" {
			request = append(request, name)
		}
	}
	for name := range header {
		if !slices.Contains([]string{"Content-Type", "Content-Length", "Server"}, name) {
			response = append(response, name)
		}
	}
	slices.Sort(request)
	slices.Sort(response)
	for _, name := range mandatory {
		if !slices.Contains(request, name) {
			return nil, nil, fmt.Errorf("the endpoint received no %s, only %s", name, strings.Join(request, ", "))
		}
	}
	for _, name := range []string{"Via", "X-Request-Id"} {
		if !slices.Contains(response, name) {
			return nil, nil, fmt.Errorf("the client received no %s, only %s", name, strings.Join(response, ", "))
		}
	}
	if client, _, _ := net.SplitHostPort(address); got.Header.Get("X-Forwarded-For") != client {
		return nil, nil, fmt.Errorf("the endpoint received X-Forwarded-For: %s", got.Header.Get("X-Forwarded-For"))
	}
	if scheme := got.Header.Get("X-Forwarded-Proto"); scheme != l.scheme() {
		return nil, nil, fmt.Errorf("the endpoint received X-Forwarded-Proto: %s instead of %s", scheme, l.scheme())
	}
	return request, response, nil
}

// send makes one request and reads the answer, which has to be 200 and of the
// load's version of HTTP.
func (v *verifier) send(ctx context.Context, method string, l load, url string, body []byte) (http.Header, []byte, error) {
	client, version := v.http1, 1
	if l.streams > 0 {
		client, version = v.http2, 2
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if field := l.authorization(); field != "" {
		request.Header.Set("Authorization", field)
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.200s", method, url, answer.Status, text)
	}
	if err == nil && answer.ProtoMajor != version {
		err = fmt.Errorf("%s %s: the answer is %s", method, url, answer.Proto)
	}
	return answer.Header, text, err
}
