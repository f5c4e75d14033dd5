package e2e

import (
	"sync"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// visit is an exchange that came to limits. They decided after before, and before the one
// of the two others that comes first.
type visit struct {
	user, path string
	before     time.Time
	after      time.Time // when it had passed them; zero: it was refused
	end        time.Time
}

// journal notes when exchanges come to limits, and when they have passed: inside the
// gateway, so that neither a client nor an endpoint that is slow changes the times.
type journal struct {
	mu     sync.Mutex
	visits []*visit
	open   map[*pipeline.Exchange]*visit
}

// kinds are two of middleware: enter stands before the limits, and pass behind them.
func (j *journal) kinds() []pipeline.Kind {
	j.open = map[*pipeline.Exchange]*visit{}
	type none struct{}
	kind := func(name string, note func(x *pipeline.Exchange), after func(x *pipeline.Exchange)) pipeline.Kind {
		return pipeline.NewKind(name, func() *none { return &none{} }, func(*none, model.Report) none { return none{} },
			func(*pipeline.Site, none) pipeline.Middleware {
				return func(next pipeline.Handler) pipeline.Handler {
					return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
						note(x)
						defer after(x)
						return next.Serve(x)
					})
				}
			})
	}
	return []pipeline.Kind{kind("enter", j.enter, j.leave), kind("pass", j.pass, func(*pipeline.Exchange) {})}
}

func (j *journal) enter(x *pipeline.Exchange) {
	user, _ := x.Request.Fields.Find("X-User")
	v := &visit{user: user, path: x.Request.Path}
	j.mu.Lock()
	defer j.mu.Unlock()
	v.before = time.Now()
	j.visits = append(j.visits, v)
	j.open[x] = v
}

func (j *journal) pass(x *pipeline.Exchange) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[x].after = now
}

func (j *journal) leave(x *pipeline.Exchange) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[x].end = now
	delete(j.open, x)
}

// of are the visits of a user, in the order in which they came; of all, where it is
// empty.
func (j *journal) of(user string) (visits []visit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.visits {
		if user == "" || v.user == user {
			visits = append(visits, *v)
		}
	}
	return visits
}

// passed is how many visits were let through, and in which time, at most, all decisions
// were made.
func passed(visits []visit) (n int, within time.Duration) {
	for i := range visits {
		if !visits[i].after.IsZero() {
			n++
			within = visits[i].after.Sub(visits[0].before)
		}
	}
	return n, within
}

// tokens is a token bucket as a book has it. It knows nothing of how the gateway's works.
type tokens struct {
	rate, burst float64
	level       float64
	at          time.Time // zero: never used
}

func (b *tokens) take(now time.Time) bool {
	if b.at.IsZero() {
		b.level = b.burst
	} else if now.After(b.at) {
		b.level = min(b.burst, b.level+now.Sub(b.at).Seconds()*b.rate)
	}
	b.at = now
	if b.level < 1 {
		return false
	}
	b.level--
	return true
}

// wantTokens holds what passed to a bucket: never more than that has, in the time that
// it took; and within a hundredth what the bucket lets through of requests that come at
// the times at which they came. Each of alone decisions that were made elsewhere may have
// changed either by one.
func wantTokens(t *testing.T, visits []visit, rate, burst float64, alone int) {
	t.Helper()
	book, want := tokens{rate: rate, burst: burst}, 0
	for i := range visits {
		if book.take(visits[i].before) {
			want++
		}
	}
	got, within := passed(visits)
	most := burst + rate*within.Seconds() + float64(alone)
	t.Logf("%d of %d passed in %v; a bucket of those times lets %d through, and never more than %.1f", got, len(visits), within.Round(time.Millisecond), want, most)
	if float64(got) > most {
		t.Errorf("%d passed in %v, which is more than %.1f", got, within, most)
	}
	if off := float64(got - want); max(off, -off) > max(2, float64(want)/100)+float64(alone) {
		t.Errorf("%d passed, want %d within 1%%, and %d", got, want, alone)
	}
}

// wantWindow fails where more than most have certainly passed within a window: they came
// to the limit in it, and had passed before it ended. It fails as well where one was
// refused though fewer can have been in the window before it; past 127 the limit counts
// groups, of which one may have begun before the window. Each of alone decisions that were
// made elsewhere may have let one too many through, or refused one, or counted without passing.
func wantWindow(t *testing.T, visits []visit, most int, window time.Duration, alone int) {
	t.Helper()
	fullest, refused, early := 0, 0, 0
	least := most - (most+126)/127 + 1
	for i := range visits {
		if v := &visits[i]; v.after.IsZero() {
			refused++
			if n := possiblyBefore(visits, i, window); n < least-alone {
				if early++; early > alone {
					t.Fatalf("%d were refused early, this one when at most %d had passed within %v, of %d", early, n, window, most)
				}
			}
			continue
		}
		fullest = max(fullest, certainlyFrom(visits[i:], window))
	}
	t.Logf("%d passed and %d were refused; in no window of %v more than %d", len(visits)-refused, refused, window, fullest)
	if most += alone; fullest > most {
		t.Errorf("%d passed within %v, want %d at most", fullest, window, most)
	}
}

// certainlyFrom counts those that passed within a window that begins with the first visit.
func certainlyFrom(visits []visit, window time.Duration) (n int) {
	end := visits[0].before.Add(window)
	for i := range visits {
		v := &visits[i]
		if !v.before.Before(end) {
			break
		}
		if !v.after.IsZero() && v.after.Before(end) {
			n++
		}
	}
	return n
}

// possiblyBefore counts those that may have passed within the window before the decision
// about the visit at an index.
func possiblyBefore(visits []visit, at int, window time.Duration) (n int) {
	refused := &visits[at]
	from := refused.before.Add(-window)
	for i := range visits {
		v := &visits[i]
		if v.before.After(refused.end) {
			break
		}
		if v.after.After(from) { // which a refused one's zero is not
			n++
		}
	}
	return n
}
