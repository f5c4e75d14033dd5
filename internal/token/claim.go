package token

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Find returns a claim by its name, or, where there is none, by a path of names with
// dots between them.
type Find func(claims map[string]any, name string) (value any, there bool)

// Required is a claim that tokens must have.
type Required struct {
	Name   string
	Values []string // one of which it must be, or have as a list; nil: whatever it is but null
}

// timeOf returns a claim that is a time (RFC 7519 2, NumericDate): seconds since 1970,
// maybe with a fraction. A time beyond what is told exactly is none.
func timeOf(claims map[string]any, name string) (at time.Time, there bool, err error) {
	value, there := claims[name]
	if !there {
		return time.Time{}, false, nil
	}
	number, ok := value.(json.Number)
	if !ok {
		return time.Time{}, true, ErrTime
	}
	seconds, err := strconv.ParseFloat(number.String(), 64)
	const most = 1 << 38 // some eight thousand years
	if err != nil || math.Abs(seconds) > most {
		return time.Time{}, true, ErrTime
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), true, nil
}

// checkTimes looks at exp, nbf and iat, and notes the first two.
func (v *Verifier) checkTimes(out *Verified, now time.Time) error {
	expires, there, err := timeOf(out.Claims, "exp")
	if err != nil || !there {
		return ErrTime
	}
	issued, _, err := timeOf(out.Claims, "iat")
	if err != nil {
		return err
	}
	if out.notBefore, _, err = timeOf(out.Claims, "nbf"); err != nil {
		return err
	}
	out.expires = expires
	if issued.After(out.notBefore) { // a token from the future is not valid yet
		out.notBefore = issued
	}
	return v.inTime(out, now)
}

// inTime tells whether a token is neither too old nor too new.
func (v *Verifier) inTime(t *Verified, now time.Time) error {
	switch {
	case !now.Before(t.expires.Add(v.Leeway)): // RFC 7519 4.1.4: on or after
		return ErrExpired
	case now.Add(v.Leeway).Before(t.notBefore):
		return ErrEarly
	}
	return nil
}

// checkAudience looks at aud: a text, or a list of texts, one of which is wanted.
func checkAudience(claims map[string]any, wanted []string) error {
	var audiences []string
	switch aud := claims["aud"].(type) {
	case nil:
		if _, there := claims["aud"]; there {
			return ErrAudience
		}
	case string:
		audiences = []string{aud}
	case []any:
		for _, one := range aud {
			text, ok := one.(string)
			if !ok {
				return ErrAudience
			}
			audiences = append(audiences, text)
		}
	default:
		return ErrAudience
	}
	if wanted != nil && !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(wanted, a) }) {
		return ErrAudience
	}
	return nil
}

// has tells whether the claims have what is required.
func (r *Required) has(claims map[string]any, find Find) bool {
	value, there := find(claims, r.Name)
	if !there || value == nil {
		return false
	}
	if r.Values == nil {
		return true
	}
	for _, wanted := range r.Values {
		if list, ok := value.([]any); ok && slices.ContainsFunc(list, func(one any) bool { return is(one, wanted) }) {
			return true
		}
		if is(value, wanted) || r.Name == "scope" && hasWord(value, wanted) {
			return true
		}
	}
	return false
}

// is tells whether a text, a number or a truth value is a text, as it is written.
func is(value any, text string) bool {
	switch value := value.(type) {
	case string:
		return value == text
	case json.Number:
		return value.String() == text
	case bool:
		return strconv.FormatBool(value) == text
	}
	return false
}

// hasWord looks for a word in a list with spaces between, as scope is one (RFC 8693 4.2).
func hasWord(value any, word string) bool {
	text, ok := value.(string)
	return ok && slices.Contains(strings.Fields(text), word)
}
