// Command hold is an endpoint for tests: it holds its answers to /hold/… until
// it is asked for /release, and counts them at /count. Everything else it
// answers at once. It prints its URL when it serves, and ends with its standard
// input, so that it never outlives its test.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var held atomic.Int64
	release := make(chan struct{})
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/hold/"):
				held.Add(1)
				<-release
				held.Add(-1)
			case r.URL.Path == "/count":
				fmt.Fprint(w, held.Load())
				return
			case r.URL.Path == "/release":
				close(release)
			}
			fmt.Fprint(w, "answer to ", r.URL.Path)
		}),
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("http://" + listener.Addr().String())
	fmt.Fprintln(os.Stderr, server.Serve(listener))
	os.Exit(1)
}
