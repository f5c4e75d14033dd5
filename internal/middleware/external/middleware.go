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
	memory *memory // nil: nothing is remembered
}

func build(site *pipeline.Site, s *settings) pipeline.Middleware {
	g := &gate{settings: s}
	g.target = lease.Acquire(site.Leases, "external auth\n"+s.identity(), func() *target { return newTarget(s, site.Log) })
	if s.Cache != nil {
		identity := "external auth's decisions\n" + site.Identity() + "\n" + model.Digest(s)
		g.memory = lease.Acquire(site.Leases, identity, func() *memory { return newMemory(s.Cache) })
	}
	return func(next pipeline.Handler) pipeline.Handler {
		return pipeline.HandlerFunc(func(x *pipeline.Exchange) error { return g.serve(x, next) })
	}
}

func (g *gate) serve(x *pipeline.Exchange, next pipeline.Handler) error {
	for _, name := range g.Drop {
		x.DropRequestField(name)
	}
	if looped(x.Request.Fields) {
		return pipeline.NewError(pipeline.LoopDetected, errLoop)
	}
	var body *copied
	if g.Body != nil {
		var err error
		if body, err = g.Body.copy(x.Request); err != nil {
			return err
		}
	}
	d, err := g.decide(x, body)
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

var errLoop = errors.New("the authorization service is asked about its own questions")

// overdue tells whether a call has had its time: that is its client's doing, and none of
// the service, whose failure may let requests pass.
func overdue(x *pipeline.Exchange) bool { return !x.Until.IsZero() && !time.Now().Before(x.Until) }

// decide is what the service says, or has said of a request that is alike.
func (g *gate) decide(x *pipeline.Exchange, body *copied) (*decision, error) {
	if g.memory == nil {
		return g.ask(x, g.target.decider.request(x, g.settings, body))
	}
	if g.Cache.Key == nil {
		r := g.target.decider.request(x, g.settings, body)
		return g.recall(x, r.sum(), func() request { return r })
	}
	return g.recall(x, keyOf(x, g.Cache.Key, body), func() request { return g.target.decider.request(x, g.settings, body) })
}

// recall is what is remembered under a key, or what the service says.
func (g *gate) recall(x *pipeline.Exchange, key keyed.Digest, asked func() request) (*decision, error) {
	if d, ok := g.memory.known(&key); ok {
		return d, nil
	}
	return g.together(x, key, asked())
}

// ask is what the service says of an exchange.
func (g *gate) ask(x *pipeline.Exchange, r request) (d *decision, err error) {
	until := x.WaitUntil(g.Timeout)
	x.Wait(func() {
		ctx, cancel := context.WithDeadline(x.Context(), until)
		defer cancel()
		d, err = g.target.ask(ctx, r, g.Allow)
	})
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
