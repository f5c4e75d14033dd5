package admin

import (
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/snapshot"
	"sluice/internal/upstream"
)

// endpoint is one path of the API with what the OpenAPI document says of it.
type endpoint struct {
	pattern    string
	summary    string
	parameters []parameter
	handler    http.Handler
}

// parameter is a path or query parameter.
type parameter struct {
	name, in, description string
	required              bool
}

func (a *API) endpoints() []endpoint {
	metrics := promhttp.HandlerFor(a.gateway.Gatherer(), promhttp.HandlerOpts{EnableOpenMetrics: true})
	revision := parameter{"revision", "path", "the number of a revision", true}
	return []endpoint{
		{"/_gateway/health", "200 while the process lives", nil, http.HandlerFunc(a.health)},
		{"/_gateway/ready", "200 once a snapshot serves and until draining begins, else 503", nil, http.HandlerFunc(a.ready)},
		{"/_gateway/metrics", "metrics in the Prometheus text format or OpenMetrics", nil, metrics},
		{"/metrics", "the same", nil, metrics},
		{"/_gateway/listeners", "the listeners with their bound addresses", nil, a.read(a.listeners)},
		{"/_gateway/routes", "the route table in matching order", nil, a.read(a.routes)},
		{"/_gateway/upstreams", "the upstreams with their endpoints", nil, a.read(a.upstreams)},
		{"/_gateway/breakers", "the circuit breakers, with what they have counted", nil, a.read(a.breakers)},
		{"/_gateway/limits", "the limits, with what they know", nil, a.read(a.limits)},
		{"/_gateway/explain", "what would happen to one request, and why", []parameter{
			{"method", "query", "GET without", false}, {"url", "query", "an absolute URL, or a path", true},
			{"header", "query", "a field as Name: value; may be repeated", false},
			{"ip", "query", "the client's address; 127.0.0.1 without", false}, {"listener", "query", "a listener's name; without, the one with the URL's port, else the first", false},
		}, http.HandlerFunc(a.explain)},
		{"/_gateway/problems", "the problems of the documents as last read", nil, a.read(func(*snapshot.Snapshot) any { return a.problems() })},
		{"/_gateway/config", "the serving revision and its documents; its number is the ETag", nil, http.HandlerFunc(a.config)},
		{"/_gateway/config/history", "the revisions, newest first", nil, a.read(func(*snapshot.Snapshot) any { return a.gateway.History().List() })},
		{"/_gateway/config/history/{revision}", "one revision with its documents", []parameter{revision}, http.HandlerFunc(a.revision)},
		{"/_gateway/releases", "the progressive deliveries", nil, a.read(func(*snapshot.Snapshot) any { return []struct{}{} })},
		{"/_gateway/openapi.json", "this description", nil, http.HandlerFunc(a.openapi)},
		{"/debug/pprof/", "profiles of the process", nil, http.HandlerFunc(pprof.Index)},
		{"/debug/pprof/cmdline", "its command line", nil, http.HandlerFunc(pprof.Cmdline)},
		{"/debug/pprof/profile", "a CPU profile", []parameter{{"seconds", "query", "how long", false}}, http.HandlerFunc(pprof.Profile)},
		{"/debug/pprof/symbol", "names of program counters", nil, http.HandlerFunc(pprof.Symbol)},
		{"/debug/pprof/trace", "an execution trace", []parameter{{"seconds", "query", "how long", false}}, http.HandlerFunc(pprof.Trace)},
		{"/{$}", "the dashboard", nil, http.HandlerFunc(a.dashboard)},
	}
}

// write is one path of the API that changes something, by POST.
type write struct {
	endpoint
	body map[string]any // the JSON Schema of what is sent
}

func (a *API) writes() []write {
	name := []parameter{{"upstream", "path", "the name of an upstream", true}}
	url := map[string]any{
		"type": "object", "required": []string{"url"}, "additionalProperties": false,
		"properties": map[string]any{"url": map[string]string{"type": "string", "description": "the URL of an endpoint"}},
	}
	return []write{
		{endpoint{"/_gateway/upstreams/{upstream}/endpoints/drain", "an endpoint gets no new attempts, over reloads, too; the answer is how it is", name, a.drain(true)}, url},
		{endpoint{"/_gateway/upstreams/{upstream}/endpoints/undrain", "a drained endpoint gets attempts again; the answer is how it is", name, a.drain(false)}, url},
	}
}

// read answers with a value of the serving snapshot.
func (a *API) read(value func(*snapshot.Snapshot) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if s := a.serving(w); s != nil {
			a.json(w, value(s))
		}
	})
}

// serving returns the snapshot, or answers that there is none yet.
func (a *API) serving(w http.ResponseWriter) *snapshot.Snapshot {
	s := a.gateway.Current()
	if s == nil {
		problem(w, http.StatusServiceUnavailable, "not_ready", "No snapshot serves yet.")
	}
	return s
}

func (a *API) health(w http.ResponseWriter, _ *http.Request) {
	a.json(w, map[string]string{"status": "ok"})
}

func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if !a.gateway.Ready() {
		problem(w, http.StatusServiceUnavailable, "not_ready", "No snapshot serves yet, or draining has begun.")
		return
	}
	a.json(w, map[string]string{"status": "ready"})
}

func (a *API) listeners(s *snapshot.Snapshot) any { return s.ListenerStatus() }

func (a *API) routes(s *snapshot.Snapshot) any { return snapshot.Table(s.Router) }

func (a *API) upstreams(s *snapshot.Snapshot) any { return statuses(s) }

// statuses are how the upstreams are, in their order.
func statuses(s *snapshot.Snapshot) []upstream.Status {
	list := make([]upstream.Status, 0, len(s.Upstreams))
	for _, group := range s.Upstreams {
		list = append(list, group.Status(time.Now()))
	}
	return list
}

func (a *API) breakers(s *snapshot.Snapshot) any { return s.Breakers(time.Now()) }

func (a *API) limits(s *snapshot.Snapshot) any { return s.Limits() }

func (a *API) problems() []model.Problem {
	if problems := a.gateway.Problems(); problems != nil {
		return problems
	}
	return []model.Problem{}
}

// document is a document as the API shows it.
type document struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Content  string `json:"content"` // with secrets struck out
}

// revisionView is a revision with its documents.
type revisionView struct {
	snapshot.Revision
	Documents []document `json:"documents"`
}

func view(revision snapshot.Revision, documents []config.Document) revisionView {
	out := revisionView{revision, make([]document, len(documents))}
	for i, d := range documents {
		out.Documents[i] = document{d.Name, d.Provider, string(config.Redact(d))}
	}
	return out
}

func (a *API) config(w http.ResponseWriter, _ *http.Request) {
	if s := a.serving(w); s != nil {
		w.Header().Set("ETag", strconv.Quote(strconv.Itoa(s.Revision.Number)))
		a.json(w, view(s.Revision, s.Documents))
	}
}

func (a *API) revision(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.Atoi(r.PathValue("revision"))
	entry, ok := a.gateway.History().Get(number)
	if err != nil || !ok {
		problem(w, http.StatusNotFound, "not_found", "No such revision is kept; GET /_gateway/config/history lists those that are.")
		return
	}
	a.json(w, view(entry.Revision, entry.Documents))
}

func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	s := a.serving(w)
	if s == nil {
		return
	}
	query := r.URL.Query()
	request, client, err := snapshot.Question(query.Get("method"), query.Get("url"), query["header"], query.Get("ip"))
	if err == nil {
		var explanation *snapshot.Explanation
		if explanation, err = s.Explain(request, query.Get("listener"), client); err == nil {
			a.json(w, explanation)
			return
		}
	}
	problem(w, http.StatusBadRequest, "bad_request", err.Error())
}
