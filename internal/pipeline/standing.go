package pipeline

import (
	"strconv"
	"strings"
	"time"

	"sluice/internal/message"
)

// Policy is a limit as clients see it (draft-ietf-httpapi-ratelimit-headers-10). It is
// immutable.
type Policy struct {
	name   string // as a String of RFC 9651
	policy string
	limit  string
}

// NewPolicy returns the policy of a limit: so much at once, which is all there again
// after window. Seconds are rounded up.
func NewPolicy(name string, quota int64, window time.Duration) *Policy {
	p := &Policy{name: sfString(name), limit: strconv.FormatInt(quota, 10)}
	p.policy = p.name + ";q=" + p.limit + ";w=" + strconv.FormatInt(Seconds(window), 10)
	return p
}

// sfString is a text as a String (RFC 9651 3.3.3), which has nothing but ASCII.
func sfString(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, c := range text {
		switch {
		case c < ' ' || c > '~':
			c = '_'
		case c == '"' || c == '\\':
			out.WriteByte('\\')
		}
		out.WriteRune(c)
	}
	out.WriteByte('"')
	return out.String()
}

// Seconds is a time in seconds, rounded up, for fields that have no finer ones.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Standing is how an exchange stands with a limit.
type Standing struct {
	Policy    *Policy // nil: with none
	Remaining int64
	Cost      int64         // what a request takes of it; 0 is 1
	Reset     time.Duration // until all of it is there again
	Denied    bool
	// Returned says that it is how the exchange stands after what the limit had taken
	// went back.
	Returned bool
}

// left is for how many more requests there is enough.
func (s *Standing) left() int64 { return s.Remaining / max(s.Cost, 1) }

// Stand notes how the exchange stands with another limit; the tightest counts: one
// that denies, else the one that has enough for the fewest requests. What was told before
// something went back is of no account after that.
func (x *Exchange) Stand(s Standing) {
	was := x.Standing
	switch {
	case was.Policy == nil:
	case s.Denied != was.Denied:
		if was.Denied {
			return
		}
	case s.Returned && !was.Returned:
	case s.left() > was.left() || s.left() == was.left() && s.Reset <= was.Reset:
		return
	}
	x.Standing = s
}

// Put writes the fields that tell a client how it stands, in place of those of an
// endpoint.
func (s *Standing) Put(fields *message.Fields) {
	p := s.Policy
	var room [128]byte
	text := append(room[:0], p.name...)
	text = append(text, ";r="...)
	r := len(text)
	text = strconv.AppendInt(text, s.Remaining, 10)
	afterR := len(text)
	text = append(text, ";t="...)
	t := len(text)
	text = strconv.AppendInt(text, Seconds(s.Reset), 10)
	whole := string(text) // the others are parts of it
	fields.Set("RateLimit-Policy", p.policy)
	fields.Set("RateLimit", whole)
	fields.Set("X-RateLimit-Limit", p.limit)
	fields.Set("X-RateLimit-Remaining", whole[r:afterR])
	fields.Set("X-RateLimit-Reset", whole[t:])
}
