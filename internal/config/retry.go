package config

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"sluice/internal/model"
)

type retry struct {
	Attempts int           `config:"attempts" doc:"how many tries there are, with the first: from 1 to 10"`
	On       []retryReason `config:"on" doc:"what another try follows: connect_failure, refused, reset, timeout, or a status of the endpoint or of the gateway" default:"[connect_failure, refused, 502, 503]"`
	PerTry   *Duration     `config:"per_try_timeout" doc:"how long one try may take to the response's head; 0: as long as the exchange" default:"5s"`
	Budget   Percent       `config:"budget" doc:"the share of the upstream's exchanges in flight that may be further tries; three may be always"`
	Methods  []string      `config:"methods" doc:"what may be tried again although an endpoint has seen it"`
	MaxBody  Size          `config:"max_body" doc:"how much of a body is kept for another try"`
}

// SetDefaults sets the defaults of SPEC 3.
func (t *retry) SetDefaults() {
	*t = retry{Attempts: 2, Budget: 0.2, Methods: []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}, MaxBody: 64 << 10}
}

const (
	defaultPerTry = 5 * time.Second
	mostAttempts  = 10
)

// retryReason is a word or a status of on.
type retryReason string

func (*retryReason) want() string {
	return "connect_failure, refused, reset, timeout or a status such as 503"
}

func (w *retryReason) set(s scalar) *fault {
	if n := s.nature(); n != isText && n != isInt {
		return unwanted("")
	}
	*w = retryReason(s.s)
	return nil
}

// The words of on.
var retryWords = []string{"connect_failure", "refused", "reset", "timeout"}

// retry builds when an exchange is tried again; nil: it is not.
func (r *resolver) retry(in *route, built *model.Route) *model.Retry {
	t := in.Retry
	if t == nil {
		return nil
	}
	if built.Upstream == nil && built.Split == nil && in.Upstream == nil && in.Split == nil {
		r.out.add(in.below("retry"), "retry needs the destination upstream or split", "remove it")
		return nil
	}
	report := func(key, message, hint string) { r.out.add(in.below("retry."+key), message, hint) }
	out := &model.Retry{Attempts: t.Attempts, PerTry: defaultPerTry, Budget: float64(t.Budget), Methods: t.Methods, Body: int64(t.MaxBody)}
	if t.Attempts < 1 || t.Attempts > mostAttempts {
		report("attempts", fmt.Sprintf("attempts must be from 1 to %d, not %d", mostAttempts, t.Attempts), "it counts the first try, too")
	}
	if t.PerTry != nil {
		out.PerTry = time.Duration(*t.PerTry)
		if in.Timeout > 0 && *t.PerTry > in.Timeout {
			r.out.warn(in.below("retry.per_try_timeout"), fmt.Sprintf("per_try_timeout is %v, longer than the timeout of %v, which ends all tries", *t.PerTry, in.Timeout), "write a shorter one")
		}
	}
	if t.On == nil {
		t.On = []retryReason{"connect_failure", "refused", "502", "503"}
	}
	out.On = r.retryOn(in)
	methods := newNames(len(t.Methods))
	for i, method := range t.Methods {
		f := checkMethod(method)
		switch {
		case method == "*":
			report(item("methods", i), fmt.Sprintf("methods[%d] has *, which is no method", i), "name the methods one by one")
		case f != nil:
			report(item("methods", i), fmt.Sprintf("methods[%d] %s", i, f.message), f.hint)
		case methods[method]:
			report(item("methods", i), fmt.Sprintf("the method %s is here twice", method), "")
		}
		methods.note(method)
	}
	return out
}

// retryOn takes the words and statuses that another try follows.
func (r *resolver) retryOn(in *route) model.RetryOn {
	var out model.RetryOn
	if len(in.Retry.On) == 0 {
		r.out.add(in.below("retry.on"), "on is an empty list, so that nothing would be tried again", "leave the key out for connect_failure, refused, 502 and 503, or remove retry")
	}
	seen := newNames(len(in.Retry.On))
	for i, reason := range in.Retry.On {
		word := string(reason)
		report := func(message, hint string) { r.out.add(in.below(item("retry.on", i)), message, hint) }
		switch word {
		case "connect_failure":
			out.ConnectFailure = true
		case "refused":
			out.Refused = true
		case "reset":
			out.Reset = true
		case "timeout":
			out.Timeout = true
		default:
			r.retryStatus(word, &out, i, report)
		}
		if seen[word] {
			report(fmt.Sprintf("%s is here twice", word), "")
		}
		seen.note(word)
	}
	slices.Sort(out.Status)
	return out
}

func (r *resolver) retryStatus(word string, out *model.RetryOn, i int, report func(message, hint string)) {
	status, err := strconv.Atoi(word)
	switch {
	case err != nil:
		hint := r.out.hint(word, retryWords)
		if class := classHint(word); class != "" {
			hint = fmt.Sprintf("name the statuses one by one, as %q", word[:1]+"03")
		}
		report(fmt.Sprintf("on[%d] must be %s, not %s", i, (*retryReason)(nil).want(), short(word)), hint)
	case status < 400 || status > 599:
		report(fmt.Sprintf("on[%d] must be a status from 400 to 599, not %s", i, word), "")
	default:
		out.Status = append(out.Status, status)
	}
}
