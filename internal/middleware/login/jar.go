package login

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// The bounds of cookies. Browsers take some 4 KiB for a name with its value (RFC 6265bis
// 5.4), and other servers on the way to the gateway bound the whole of them.
const (
	chunkSize    = 3800
	mostChunks   = 5
	mostAttempts = 5 // that one browser has open at once
	hostPrefix   = "__Host-"
	// mostEndedAttempts is how many attempts one answer ends: who has a thousand did not get
	// them here, and proxies bound the head of an answer.
	mostEndedAttempts = 4 * mostAttempts
)

// jar is the cookies of a request that are oidc's own, and the way in which the client
// came, which decides their names: a cookie that came without TLS is none over TLS.
type jar struct {
	name     string // of the session's
	secure   bool
	origin   string // scheme and authority, as the client has them
	session  []string
	chunks   int // how many of a session the client has, sound or not
	twice    bool
	attempts []attemptCookie
}

type attemptCookie struct{ name, value string }

// readJar reads the cookies of a request.
func (g *gate) readJar(x *pipeline.Exchange) *jar {
	scheme, host := x.Request.Scheme, x.Request.Host
	if told := x.Request.Fields.Get(message.XForwardedProto); told != "" { // a trusted proxy's: others' are dropped
		scheme = strings.ToLower(told)
	}
	if told := x.Request.Fields.Get(message.XForwardedHost); told != "" {
		host = told
	}
	j := &jar{name: g.Cookie, secure: scheme == "https", session: make([]string, mostChunks)}
	if j.secure {
		j.name = hostPrefix + j.name
	}
	if host != "" {
		j.origin = scheme + "://" + withoutDefaultPort(scheme, strings.ToLower(host))
	}
	for pair := range cookies(x.Request.Fields) {
		name, value, _ := strings.Cut(pair, "=")
		rest, own := strings.CutPrefix(name, j.name)
		if !own {
			continue
		}
		if id, ok := strings.CutPrefix(rest, attemptInfix); ok && isAttemptID(id) {
			j.attempts = append(j.attempts, attemptCookie{id, value})
		} else if at := chunkOf(rest); at >= 0 {
			j.twice = j.twice || j.session[at] != ""
			j.session[at] = value
			j.chunks = max(j.chunks, at+1)
		}
	}
	return j
}

// withoutDefaultPort is an authority as browsers write it in URLs, and as issuers have it
// in the redirect URIs that they know: some clients and proxies tell the port in any case.
func withoutDefaultPort(scheme, authority string) string {
	if scheme == "https" {
		return strings.TrimSuffix(authority, ":443")
	}
	return strings.TrimSuffix(authority, ":80")
}

// chunkOf is which part of a session a cookie has, by what its name has more than that of
// the session: nothing, or .1 and so on; -1: none.
func chunkOf(rest string) int {
	switch {
	case rest == "":
		return 0
	case len(rest) == 2 && rest[0] == '.' && '1' <= rest[1] && rest[1] < '0'+mostChunks:
		return int(rest[1] - '0')
	}
	return -1
}

// text is what the client has of a session, empty where it has none, or none that is
// whole. A name that comes twice is somebody else's: which of them counts cannot be told.
func (j *jar) text() string {
	first := j.session[0]
	if j.twice || len(first) < 2 || first[0] < '1' || first[0] > '0'+mostChunks || first[1] != '.' {
		return ""
	}
	count, text := int(first[0]-'0'), first[2:]
	for _, part := range j.session[1:count] {
		if part == "" {
			return ""
		}
		text += part
	}
	if len(text) > mostChunks*chunkSize {
		return ""
	}
	return text
}

// setCookies are fields of a response.
type setCookies []string

// add puts them into a response, which then is for nobody else.
func (c setCookies) add(fields *message.Fields) {
	for _, value := range c {
		fields.Add(message.SetCookie.String(), value)
	}
	if len(c) > 0 {
		fields.Put(message.CacheControl, "no-store")
	}
}

// cookie is one that the client is to keep for so long; not at all where that is over.
func (j *jar) cookie(name, value string, life time.Duration) string {
	secure := ""
	if j.secure {
		secure = "; Secure"
	}
	if life < time.Second {
		life, value = 0, ""
	}
	return fmt.Sprintf("%s=%s; Path=/; Max-Age=%d; HttpOnly%s; SameSite=Lax", name, value, int64(life/time.Second), secure)
}

// sessionCookies are those that have a session's text, in as many parts as it takes, and
// the end of those parts that are there beyond. A text that is empty ends all.
func (j *jar) sessionCookies(text string, life time.Duration) (set setCookies) {
	count := 0
	if text != "" {
		count = (len(text) + chunkSize - 1) / chunkSize
		text = fmt.Sprintf("%d.%s", count, text)
	}
	for at := range max(count, j.chunks) {
		name := j.name
		if at > 0 {
			name = fmt.Sprintf("%s.%d", j.name, at)
		}
		if at >= count {
			set = append(set, j.cookie(name, "", 0))
			continue
		}
		part := text
		if at < count-1 {
			part = text[:chunkSize]
		}
		text = text[len(part):]
		set = append(set, j.cookie(name, part, life))
	}
	return set
}

// dropCookies takes oidc's own cookies out of a request, by whatever way they came, so
// that they go no further.
func (g *gate) dropCookies(fields *message.Fields) {
	own := func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(strings.TrimPrefix(name, hostPrefix), g.Cookie)
		return ok && (chunkOf(rest) >= 0 || strings.HasPrefix(rest, attemptInfix))
	}
	for i := range *fields {
		f := &(*fields)[i]
		if f.ID != message.Cookie || !strings.Contains(f.Value, g.Cookie) {
			continue
		}
		kept := make([]string, 0, strings.Count(f.Value, ";"))
		for pair := range strings.SplitSeq(f.Value, ";") {
			if pair = strings.Trim(pair, " \t"); pair != "" && !own(pair) {
				kept = append(kept, pair)
			}
		}
		f.Value = strings.Join(kept, "; ")
	}
	fields.DeleteFunc(func(f message.Field) bool { return f.ID == message.Cookie && f.Value == "" })
}

// cookies yields the pairs of all Cookie fields.
func cookies(fields message.Fields) func(yield func(pair string) bool) {
	return func(yield func(string) bool) {
		for i := range fields {
			if fields[i].ID != message.Cookie {
				continue
			}
			for pair := range strings.SplitSeq(fields[i].Value, ";") {
				if !yield(strings.Trim(pair, " \t")) {
					return
				}
			}
		}
	}
}
