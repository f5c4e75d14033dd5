// Package server may know net/http, but not its one of everything.
package server

import "net/http"

// Serve serves.
func Serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodTrace {
		panic(http.ErrAbortHandler)
	}
	http.DefaultServeMux.ServeHTTP(w, r) // want registry
}
