package admin

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"time"

	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/snapshot"
	"sluice/internal/upstream"
)

//go:embed dashboard.html
var dashboardHTML string

var dashboardPage = template.Must(template.New("dashboard").Parse(dashboardHTML))

// dashboard is one page with what the API's reads tell, made anew per request.
func (a *API) dashboard(w http.ResponseWriter, _ *http.Request) {
	s := a.serving(w)
	if s == nil {
		return
	}
	problems := a.problems()
	var page bytes.Buffer
	err := dashboardPage.Execute(&page, struct {
		Revision  snapshot.Revision
		Ready     bool
		Listeners any
		Upstreams []upstream.Status
		Breakers  []upstream.BreakerStatus
		Limits    []pipeline.LimitStatus
		Routes    []snapshot.Row
		Problems  []model.Problem
		Refused   bool
	}{s.Revision, a.gateway.Ready(), a.listeners(s), statuses(s), s.Breakers(time.Now()), s.Limits(), snapshot.Table(s.Router), problems, model.Refused(problems)})
	if err != nil {
		a.log.Error("the dashboard was not made", "error", err)
		problem(w, http.StatusInternalServerError, "internal", "The dashboard could not be made; the log says why.")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_, _ = w.Write(page.Bytes()) // the client has left, which concerns nobody
}
