package limit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/internal/config"
	"sluice/internal/keyed"
	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// ConcurrencyOptions are the options of concurrency_limit.
type ConcurrencyOptions struct {
	Max          int              `config:"max,required" doc:"how many exchanges there may be at once, from their beginning to the last byte of the response"`
	Key          config.LimitKeys `config:"key" doc:"what it counts by: one, or a list that is one key together; a value that is missing counts as an empty one" default:"global"`
	Queue        int              `config:"queue" doc:"how many more may wait for a place, first come first served"`
	QueueTimeout config.Duration  `config:"queue_timeout" doc:"how long they may"`
	MaxKeys      int              `config:"max_keys" doc:"how many keys are remembered; past it those that were not seen lately are forgotten"`
	Adaptive     config.Later     `config:"adaptive"`
}

// concurrencyLimit is the settings of concurrency_limit.
type concurrencyLimit struct {
	Max, Queue   int
	QueueTimeout time.Duration
	Keys         []model.Key
	MaxKeys      int
}

// Concurrency is the kind concurrency_limit: past max exchanges at once others wait in
// a queue, and past that or its time they are 503 overloaded.
func Concurrency() pipeline.Kind {
	return pipeline.NewKind("concurrency_limit", func() *ConcurrencyOptions {
		return &ConcurrencyOptions{QueueTimeout: config.Duration(time.Second), MaxKeys: maxKeys}
	}, validateConcurrency, buildConcurrency)
}

func validateConcurrency(o *ConcurrencyOptions, report model.Report) concurrencyLimit {
	l := concurrencyLimit{
		Max: o.Max, Queue: o.Queue, QueueTimeout: time.Duration(o.QueueTimeout), MaxKeys: o.MaxKeys,
		Keys: []model.Key{{Source: model.KeyGlobal}},
	}
	if o.Key != nil {
		l.Keys = o.Key.Keys()
	}
	for _, number := range []struct {
		key          string
		value, least int
	}{{"max", o.Max, 1}, {"queue", o.Queue, 0}, {"max_keys", o.MaxKeys, 1}} {
		if number.value < number.least {
			report(number.key, fmt.Sprintf("%s must be at least %d, not %d", number.key, number.least, number.value), "")
		}
	}
	if o.QueueTimeout == 0 && o.Queue > 0 {
		report("queue_timeout", "with queue_timeout 0 nobody could wait in the queue", "raise it, or remove queue")
	}
	return l
}

// gates are those of a concurrency limit, by key, and the clock that their table goes
// by.
type gates struct {
	began time.Time
	table *keyed.Table[gate]
}

func (g *gates) of(key string) *gate { return g.table.Get(g.table.Key(key), time.Since(g.began)) }

func buildConcurrency(site *pipeline.Site, l concurrencyLimit) pipeline.Middleware {
	identity := "concurrency limit\n" + site.Identity() + "\n" + model.Text(l.Keys) + "\n" + strconv.Itoa(l.MaxKeys)
	held := lease.Acquire(site.Leases, identity, func() *gates {
		idle := func(g *gate, _ time.Duration) bool { return g.idle() }
		return &gates{time.Now(), keyed.NewTable(l.MaxKeys, nil, idle)}
	})
	site.Show(identity, func() pipeline.LimitStatus {
		status := pipeline.LimitStatus{Limit: site.Identity(), Kind: "concurrency_limit", Max: l.Max, Keys: held.table.Len(), Evicted: held.table.Evicted()}
		held.table.Range(func(_ uint64, g *gate) bool {
			running, waiting := g.load()
			status.Running += running
			status.Waiting += waiting
			return true
		})
		return status
	})
	return func(next pipeline.Handler) pipeline.Handler {
		return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
			g := held.of(keyOf(x, l.Keys))
			turn, ok := g.enter(l.Max, l.Queue)
			if !ok {
				return l.overloaded(errFull)
			}
			if turn != nil {
				if err := l.wait(x, turn); err != nil {
					g.abandon(turn, l.Max)
					return err
				}
			}
			x.AtEnd(func() { g.leave(l.Max) })
			return next.Serve(x)
		})
	}
}

var (
	errFull      = errors.New("all places of the concurrency limit and of its queue are taken")
	errQueueTime = errors.New("no place of the concurrency limit came free in time")
)

// wait waits for the turn of an exchange, unless its client leaves or its time is over.
func (l *concurrencyLimit) wait(x *pipeline.Exchange, turn <-chan struct{}) (err error) {
	x.Wait(func() {
		patience := l.QueueTimeout
		if !x.Until.IsZero() {
			patience = min(patience, time.Until(x.Until))
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-turn:
		case <-x.Context().Done():
			err = context.Cause(x.Context())
		case <-timer.C:
			err = l.overloaded(errQueueTime)
		}
	})
	return err
}

// overloaded tells a client to come back after the time that a place may take.
func (l *concurrencyLimit) overloaded(cause error) error {
	err := pipeline.NewError(pipeline.Overloaded, cause)
	err.Detail = "Too many requests are being served."
	err.Fields.Put(message.RetryAfter, strconv.FormatInt(max(1, pipeline.Seconds(l.QueueTimeout)), 10))
	return err
}
