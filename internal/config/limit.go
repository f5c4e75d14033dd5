package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sluice/internal/model"
	"sluice/internal/resilience"
)

// LimitKey is what a limit counts by: what identifies a user or a client, as
// header:NAME, or global, route, upstream or consumer.
type LimitKey struct{ model.Key }

const limitKeyWant = "global, client_ip, route, upstream, consumer, header:NAME, cookie:NAME, query:NAME or jwt:CLAIM"

// limitSources are those of keys of limits that have no name.
var limitSources = []string{string(model.KeyGlobal), string(model.KeyRoute), string(model.KeyUpstream), string(model.KeyConsumer)}

func (k *LimitKey) decode(d *decoder, n *yaml.Node) {
	d.scalar(n, limitKeyWant, func(s scalar) *fault {
		source, name, named := strings.Cut(s.s, ":")
		k.Source, k.Name = model.KeySource(source), name
		switch {
		case slices.Contains(limitSources, source) && named:
			return faulty(fmt.Sprintf("must be %s alone, which has no name", source), "write "+source)
		case slices.Contains(limitSources, source):
			return nil
		case slices.Contains(keySources, source):
			return checkKey(k.Key, named)
		}
		near := d.out.nearest(source, append(slices.Clone(limitSources), keySources...))
		if slices.Contains(limitSources, near) {
			return unwanted("write " + near)
		}
		return unwanted(keyHint(near, s.s, name, named))
	})
}

// LimitKeys is one LimitKey, or a list of those that are one key together.
type LimitKeys []LimitKey

func (k *LimitKeys) decode(d *decoder, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		var one LimitKey
		one.decode(d, n)
		*k = LimitKeys{one}
		return
	}
	if len(n.Content) == 0 {
		d.problem(n, d.name()+" is an empty list", "write global for one limit of all")
		return
	}
	keys := make(LimitKeys, len(n.Content))
	for i, item := range n.Content {
		d.path = append(d.path, hop{index: i})
		d.decode(item, reflect.ValueOf(&keys[i]).Elem())
		d.path = d.path[:len(d.path)-1]
	}
	*k = keys
}

// Keys are the keys as the model has them.
func (k LimitKeys) Keys() []model.Key {
	keys := make([]model.Key, len(k))
	for i := range k {
		keys[i] = k[i].Key
	}
	return keys
}

// upstreamLimit protects an upstream.
type upstreamLimit struct {
	located
	Rate  Rate   `config:"rate,required" doc:"how many exchanges"`
	Burst *int64 `config:"burst" doc:"how many of them at once" default:"the number of rate"`
}

// upstreamLimit builds the limit of an upstream; nil: it has none.
func (r *resolver) upstreamLimit(u *upstream) *model.RateLimit {
	in := u.RateLimit
	if in == nil {
		return nil
	}
	q := LimitQuota(in.Rate, in.Burst, func(key, message, hint string) { r.out.add(u.below("rate_limit."+key), message, hint) })
	return &model.RateLimit{Count: q.Count, Per: q.Per, Burst: q.Burst}
}

// LimitQuota is a rate with its burst, which is the number of the rate where none is
// written. What is wrong with it is reported.
func LimitQuota(rate Rate, burst *int64, report model.Report) resilience.Quota {
	q := resilience.Quota{Count: rate.Count, Per: rate.Per, Burst: rate.Count}
	key := "rate"
	if burst != nil {
		q.Burst, key = *burst, "burst"
	}
	switch problem := q.Problem(); {
	case q.Burst < 1:
		report("burst", fmt.Sprintf("burst must be at least 1, not %d", q.Burst), "leave it out for as many as rate has")
		q.Burst = 1
	case problem != "":
		report(key, problem, "")
		q = resilience.Quota{Count: 1, Per: time.Second, Burst: 1}
	}
	return q
}
