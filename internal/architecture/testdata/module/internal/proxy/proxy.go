// Package proxy knows net/http, sleeps and panics.
package proxy

import (
	"errors"
	"net/http"          // want net-http
	"net/http/httputil" // want net-http
	"time"

	"golang.org/x/net/http/httpguts"
)

// Serve serves.
func Serve(r *http.Request) {
	for r == nil {
		time.Sleep(time.Second) // want sleep
	}
	switch {
	case r == nil:
		panic("no request") // want panic
	case !httpguts.ValidHostHeader(r.Host):
		panic(errors.New("BUG: an error is no message")) // want panic
	}
	if err := r.Body.Close(); err != nil {
		panic(err) // want panic
	}
	_ = httputil.ReverseProxy{}
}
