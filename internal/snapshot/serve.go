package snapshot

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/telemetry"
)

// served is a route with what serves and observes its exchanges.
type served struct {
	route   *model.Route // nil: the place of what reached no route
	handler pipeline.Handler
	metrics *telemetry.RouteMetrics
	ledger  *ledger
}

// ledger is where a snapshot's exchanges are noted. It is apart from the
// snapshot: an exchange that goes on for days after a reload must not keep the
// route table and the documents of its time.
type ledger struct {
	accessLog *telemetry.AccessLog
	metrics   *telemetry.Metrics
	process   *slog.Logger
	current   *Current
	upstreams map[string]*telemetry.UpstreamMetrics // by name
}

// Observe writes the exchange's log line and counts it.
func (r *served) Observe(x *pipeline.Exchange) {
	duration := time.Since(x.Start)
	record := telemetry.Record{
		Time: x.Start, RequestID: x.ID, TraceID: x.TraceID, ClientIP: x.ClientIP,
		Status: status(x), BytesIn: x.BytesIn, BytesOut: x.BytesOut, Duration: duration, UpstreamDuration: x.UpstreamTime,
		Upstream: x.Upstream, Endpoint: x.Endpoint, Version: x.Version, Attempts: x.Attempts, Consumer: x.Consumer,
	}
	if q := x.Request; q != nil {
		record.Method, record.Host, record.Path, record.Query, record.Protocol = q.Method, q.Host, q.Path, q.Query, string(q.Protocol)
		record.UserAgent = q.Fields.Get(message.UserAgent)
		record.Referer, _ = q.Fields.Find("Referer")
	}
	if r.route != nil {
		record.Route = r.route.ID
	}
	if x.Err != nil {
		record.Error = string(x.Err.Word)
		r.metrics.Error(record.Error)
		r.ledger.tell(x)
	}
	name := x.Upstream
	if name == "" && r.route != nil && r.route.Upstream != nil { // refused on its way there
		name = r.route.Upstream.Name
	}
	r.metrics.Observe(record.Method, record.Status, name, x.Version, duration)
	if x.Attempts > 0 {
		r.ledger.upstreams[x.Upstream].Observe(x.UpstreamTime)
	}
	r.ledger.metrics.RequestEnded()
	r.ledger.log(&record)
}

// tell puts the cause of an exchange's error into the process log: the access
// log has its word only. What endpoints and clients do wrong is for whoever looks
// for it; what the gateway does wrong must not go unseen.
func (l *ledger) tell(x *pipeline.Exchange) {
	level := slog.LevelDebug
	if x.Err.Word == pipeline.Internal {
		level = slog.LevelError
	}
	if x.Err.Err == nil || !l.process.Enabled(x.Context(), level) {
		return
	}
	l.process.LogAttrs(x.Context(), level, "an exchange failed", slog.String("request_id", x.ID), slog.String("error", string(x.Err.Word)),
		slog.String("upstream", x.Upstream), slog.String("endpoint", x.Endpoint), slog.Any("cause", x.Err.Err))
}

// log writes an exchange's line: into the log of its snapshot, or, where a
// reload has ended that while the exchange went on, into the present one.
func (l *ledger) log(record *telemetry.Record) {
	for at := l.accessLog; !at.Log(record); {
		next := l.current.Load().accessLog
		if next == at { // the process ends
			at.Drop()
			return
		}
		at = next
	}
}

// status is the one that the client saw, or what it stands for where all have
// the same; 499 where it left before.
func status(x *pipeline.Exchange) int {
	if x.Status != 0 {
		return x.Status
	}
	if x.Response != nil {
		return x.Response.Status
	}
	return pipeline.StatusClientClosed
}

// unmatched is the error of a request that no route takes: 405 where one would
// take it with another method.
func unmatched(allow []string) error {
	if len(allow) == 0 {
		return pipeline.NewError(pipeline.NoRoute, nil)
	}
	err := pipeline.NewError(pipeline.MethodNotAllowed, nil)
	err.Fields.Put(message.Allow, strings.Join(allow, ", "))
	return err
}

// sign puts into the response, or into what the error will become, what the gateway
// tells of the exchange: how it stands with its limits, and the milliseconds so far.
func (s *Snapshot) sign(x *pipeline.Exchange, err error) error {
	var fields *message.Fields
	if err == nil {
		fields = &x.Response.Fields
	} else {
		told := *pipeline.AsError(err) // an error may be that of many exchanges
		told.Fields = told.Fields.Clone()
		fields, err = &told.Fields, &told
	}
	if x.Standing.Policy != nil {
		x.Standing.Put(fields)
	}
	if s.Gateway.ResponseTimeHeader {
		fields.Put(message.XResponseTime, strconv.FormatFloat(float64(time.Since(x.Start).Microseconds())/1000, 'f', -1, 64))
	}
	return err
}
