package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

const levelOfDemo = slog.LevelWarn

// usersService knows users, streams events and takes uploads.
func usersService() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]string{"service": "users", "id": r.PathValue("id"), "request_id": r.Header.Get("X-Request-ID")})
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := 1; ; n++ {
			if _, err := fmt.Fprintf(w, "data: tick %d\n\n", n); err != nil {
				return
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /upload", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // the gateway gave the upload up
		}
		reply(w, map[string]any{"service": "users", "bytes": n})
	})
	return mux
}

// ordersService knows orders, in a version.
func ordersService(version string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]string{"service": "orders", "version": version, "path": r.URL.Path})
	})
}

func reply(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic("BUG: a demo service has no JSON: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // a client that left
}
