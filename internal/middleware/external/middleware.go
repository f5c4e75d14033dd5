package external

import (
	"context"
	"errors"
	"time"

	"sluice/internal/keyed"
	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// gate asks for one place in a chain.
type gate struct {
	*settings

	target *target
	cache  *keyed.Cache[*decision] // nil: nothing is remembered
}

func build(site *pipeline.Site, s *settings) pipeline.Middleware {
	g := &gate{settings: s}
	g.target = lease.Acquire(site.Leases, "external auth\n"+s.identity(), func() *target { return newTarget(s, site.Log) })
	if s.Cache != nil {
		identity := "external auth's decisions\n" + site.Identity() + "\n" + model.Digest(s)
		g.cache = lease.Acquire(site.Leases, identity, func() *keyed.Cache[*decision] { return keyed.NewCache[*decision](s.Cache.Max) })
	}
	return func(next pipeline.Handler) pipeline.Handler {
		return pipeline.HandlerFunc(func(x *pipeline.Exchange) error { return g.serve(x, next) })
	}
}

func (g *gate) serve(x *pipeline.Exchange, next pipeline.Handler) error {
	for _, name := range g.Drop {
		x.DropRequestField(name)
	}
	d, err := g.decide(x)
	switch {
	case err != nil && x.Context().Err() != nil:
		return context.Cause(x.Context())
	case err != nil && g.Allow && !overdue(x):
		return next.Serve(x)
	case err != nil:
		return pipeline.NewError(pipeline.AuthUnavailable, err)
	case !d.allowed:
		return d.refuse(x)
	}
	apply(d.request, x.DropRequestField, &x.Request.Fields)
	x.Request.Query = rewriteQuery(x.Request.Query, d.query)
	if d.who != nil {
		x.Authenticate(d.who)
	}
	if err := next.Serve(x); err != nil {
		e := pipeline.AsError(err)
		apply(d.response, e.Fields.Delete, &e.Fields)
		return e
	}
	apply(d.response, x.DropResponseField, &x.Response.Fields)
	return nil
}

// overdue tells whether a call has had its time: that is its client's doing, and none of
// the service, whose failure may let requests pass.
func overdue(x *pipeline.Exchange) bool { return !x.Until.IsZero() && !time.Now().Before(x.Until) }

// decide is what the service says, or has said of a request that is alike.
func (g *gate) decide(x *pipeline.Exchange) (*decision, error) {
	var r request // made when it is needed
	var key keyed.Digest
	if g.cache != nil {
		if g.Cache.Key == nil {
			r = g.target.decider.request(x, g.settings)
			key = r.sum()
		} else {
			key = keyOf(x, g.Cache.Key)
		}
		if d, ok := g.cache.Get(&key, time.Now()); ok {
			return d, nil
		}
	}
	if r.decide == nil {
		r = g.target.decider.request(x, g.settings)
	}
	until := x.WaitUntil(g.Timeout)
	var d *decision
	var err error
	x.Wait(func() {
		ctx, cancel := context.WithDeadline(x.Context(), until)
		defer cancel()
		d, err = g.target.ask(ctx, r, g.Allow)
	})
	if err == nil && g.cache != nil && !d.uncacheable && d.size() <= largestKept {
		now := time.Now()
		g.cache.Put(&key, d, now.Add(g.Cache.TTL), now)
	}
	return d, err
}

var errRefused = errors.New("the authorization service refuses the request")

// refuse answers as the service says, with the word of its status for the log and the
// metrics; a call of gRPC is told by its status.
func (d *decision) refuse(x *pipeline.Exchange) error {
	if pipeline.CallOf(x.Request) == 0 {
		if d.status == 401 || d.status == 403 || d.status >= 500 {
			x.Err = pipeline.NewError(d.word(), errRefused)
		}
		x.Response = &message.Response{Status: d.status, Fields: d.fields.Clone()}
		if d.body != "" {
			x.Response.Body, x.Response.Length = message.Text(d.body), int64(len(d.body))
		}
		return nil
	}
	e := pipeline.NewError(d.word(), errRefused)
	for _, f := range d.fields {
		if f.ID == message.WWWAuthenticate || f.ID == message.SetCookie {
			e.Fields = append(e.Fields, f)
		}
	}
	return e
}

// word is what a refusal is called.
func (d *decision) word() pipeline.Word {
	switch {
	case d.status == 401:
		return pipeline.Unauthenticated
	case d.status >= 500:
		return pipeline.AuthUnavailable
	}
	return pipeline.Forbidden
}
