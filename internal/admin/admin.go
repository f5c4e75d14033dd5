// Package admin is the admin API: what a running gateway tells about itself
// over HTTP, with the dashboard. It reads the serving snapshot, and changes no more
// than whether an endpoint is drained; it sees no exchange.
package admin

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/snapshot"
)

// Gateway is what the admin API asks. All of it is safe for concurrent use.
type Gateway interface {
	// Current is the serving snapshot, nil before the first.
	Current() *snapshot.Snapshot
	// Ready tells whether a snapshot serves and draining has not begun.
	Ready() bool
	// Problems are those of the documents as last read, warnings too.
	Problems() []model.Problem
	// History holds the revisions.
	History() *snapshot.History
	// Gatherer holds the metrics.
	Gatherer() prometheus.Gatherer
}

// API serves the admin API.
type API struct {
	gateway Gateway
	log     *slog.Logger
	mux     *http.ServeMux
}

// New returns the API of a gateway.
func New(gateway Gateway, log *slog.Logger) *API {
	a := &API{gateway: gateway, log: log, mux: http.NewServeMux()}
	for _, e := range a.endpoints() {
		a.mux.Handle("GET "+e.pattern, e.handler)
	}
	for _, e := range a.writes() {
		a.mux.Handle("POST "+e.pattern, e.handler)
	}
	return a
}

// ServeHTTP lets in who may, and answers.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	settings, area := a.settings(), areaOf(r.URL.Path)
	switch {
	case settings != nil:
	case area == "health" || area == "ready":
		settings = &model.Admin{Public: []string{"health", "ready"}}
	default: // who may ask is not known yet
		problem(w, http.StatusServiceUnavailable, "not_ready", "No snapshot serves yet.")
		return
	}
	if area != "health" && area != "ready" && !answersTo(r, settings) {
		problem(w, http.StatusMisdirectedRequest, "misdirected", "The admin API does not answer to this host name; admin.hosts lists those it does.")
		return
	}
	if !slices.Contains(settings.Public, area) && !authorized(r, settings.Token) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
		problem(w, http.StatusUnauthorized, "unauthenticated", "The admin API needs its token: Authorization: Bearer …")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !sameOrigin(r) {
		problem(w, http.StatusForbidden, "forbidden", "A write from a page of another origin is refused.")
		return
	}
	handler, pattern := a.mux.Handler(r)
	if pattern == "" {
		a.unknown(w, r, handler)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// unknown answers where no endpoint does: by the status that the mux would give.
func (a *API) unknown(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := statusProbe{header: http.Header{}}
	handler.ServeHTTP(&probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		allow := probe.header.Get("Allow")
		w.Header().Set("Allow", allow)
		problem(w, probe.status, "method_not_allowed", "This path of the admin API takes "+allow+".")
		return
	}
	problem(w, http.StatusNotFound, "not_found", "The admin API has no such path; GET /_gateway/openapi.json lists them.")
}

// statusProbe is a ResponseWriter that learns a handler's status and header.
type statusProbe struct {
	header http.Header
	status int
}

// Header is what the handler sets.
func (p *statusProbe) Header() http.Header { return p.header }

// WriteHeader takes the status.
func (p *statusProbe) WriteHeader(status int) { p.status = status }

// Write drops the text.
func (p *statusProbe) Write(b []byte) (int, error) { return len(b), nil }

// settings are the serving snapshot's, nil before the first.
func (a *API) settings() *model.Admin {
	if s := a.gateway.Current(); s != nil {
		return &s.Gateway.Admin
	}
	return nil
}

// areaOf is the word by which admin.public names a path.
func areaOf(path string) string {
	switch path {
	case "/_gateway/health":
		return "health"
	case "/_gateway/ready":
		return "ready"
	case "/metrics", "/_gateway/metrics":
		return "metrics"
	}
	return ""
}

// authorized compares digests, so that the time taken tells nothing of the token.
func authorized(r *http.Request, token string) bool {
	if token == "" {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(given)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// answersTo guards against DNS rebinding: a page that a browser loaded from
// another name must not read the API.
func answersTo(r *http.Request, settings *model.Admin) bool {
	host := canonical.Host(r.Host)
	if host == "localhost" || slices.ContainsFunc(settings.Hosts, func(name string) bool { return canonical.Host(name) == host }) {
		return true
	}
	if address, err := netip.ParseAddr(host); err == nil && address.IsLoopback() {
		return true
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if local.Network() == "unix" {
			return true
		}
		if own, err := netip.ParseAddrPort(local.String()); err == nil && own.Addr().Unmap().String() == host {
			return true
		}
	}
	own := canonical.Host(settings.Address)
	return own != "" && own == host
}

// sameOrigin tells whether a write comes from no page, or from the API's own.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	_, authority, ok := strings.Cut(origin, "://")
	return ok && strings.EqualFold(authority, r.Host)
}

func (a *API) json(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		a.log.Debug("an admin answer was not sent", "error", err)
	}
}

// problem answers with a problem document (RFC 9457).
func problem(w http.ResponseWriter, status int, word, detail string) {
	document := struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Error  string `json:"error"`
	}{"about:blank", cmp.Or(message.Reason(status), "Error"), status, detail, word}
	body, err := json.Marshal(document)
	if err != nil {
		panic("BUG: a problem document has no JSON: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has left, which concerns nobody
}
