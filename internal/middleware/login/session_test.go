package login

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const sessionName = "__Host-sluice_session"

// TestSessionThatIsNone is as good as no session: forged, cut, of another client, too old.
func TestSessionThatIsNone(t *testing.T) {
	b := newBed(t, usualOptions)
	good := b.loggedIn().cookies[sessionName]
	b.browser().passesWith(good)
	of := func(options string) func() string {
		return func() string { return b.another(options).loggedIn().cookies[sessionName] }
	}
	for name, text := range map[string]func() string{
		"nothing":           func() string { return "" },
		"text":              func() string { return "hello" },
		"a count alone":     func() string { return "1." },
		"no count":          func() string { return strings.TrimPrefix(good, "1.") },
		"count 0":           func() string { return "0" + good[1:] },
		"count 2":           func() string { return "2" + good[1:] },
		"count 9":           func() string { return "9" + good[1:] },
		"cut":               func() string { return good[:len(good)-1] },
		"cut to a nonce":    func() string { return good[:2+30] },
		"longer":            func() string { return good + "A" },
		"padded":            func() string { return good + "=" },
		"changed":           func() string { return good[:50] + flipped(good[50]) + good[51:] },
		"its end changed":   func() string { return good[:len(good)-5] + flipped(good[len(good)-5]) + good[len(good)-4:] },
		"huge":              func() string { return "1." + strings.Repeat("A", (mostChunks+1)*chunkSize) },
		"of another secret": of(strings.Replace(usualOptions, "0123", "3210", 1)),
		"of another client": of(strings.Replace(usualOptions, "client_id: gateway", "client_id: gateway2", 1)),
		"of another cookie": func() string {
			return b.another(usualOptions + ", session: {cookie: other}").loggedIn().cookies["__Host-other"]
		},
		"an attempt": func() string {
			br := b.browser()
			br.begin("/")
			for _, value := range br.cookies {
				return "1." + value
			}
			return ""
		},
	} {
		if name == "of another client" {
			b.issuer.change(func() { b.issuer.claims = map[string]any{"aud": []string{"gateway", "gateway2"}, "azp": "gateway2"} })
		}
		t.Run(name, func(t *testing.T) {
			br := b.browser()
			if br.cookies[sessionName] = text(); br.cookies[sessionName] == good {
				t.Fatal("it is the good one")
			}
			o := br.do("GET", "/")
			if o.status != 401 || o.passed {
				t.Errorf("%d", o.status)
			}
			if _, there := br.cookies[sessionName]; there && name != "nothing" {
				t.Error("the browser keeps it")
			}
		})
		b.issuer.change(func() { b.issuer.claims = nil })
	}
	br := b.browser()
	if o := br.do("GET", "/", "Cookie: "+sessionName+"="+good+"; "+sessionName+"="+good); o.status != 401 {
		t.Errorf("two sessions: %d", o.status)
	}
}

func flipped(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// passesWith says that a session is good.
func (br *browser) passesWith(text string) {
	br.b.t.Helper()
	br.cookies[sessionName] = text
	br.passes("a session")
}

// TestSessionEnds after its time, however often it was refreshed, and takes up a shorter
// time that is set later.
func TestSessionEnds(t *testing.T) {
	b := newBed(t, usualOptions+", session: {ttl: 3h}")
	br := b.loggedIn()
	for range 2 {
		b.clock.pass(59*time.Minute + 30*time.Second)
		br.passes("a session that is refreshed")
	}
	old := br.cookies[sessionName]
	b.clock.pass(time.Hour + 2*time.Minute)
	if o := br.do("GET", "/"); o.status != 401 || len(br.cookies) != 0 || b.issuer.seen().refreshed != 2 {
		t.Errorf("after its time: %d, refreshed %d times", o.status, b.issuer.seen().refreshed)
	}
	b.clock.pass(-4 * time.Minute)
	b.browser().passesWith(old)
	b.load(usualOptions + ", session: {ttl: 1h}")
	if o := br.do("GET", "/", "Cookie: "+sessionName+"="+old); o.status != 401 {
		t.Errorf("with a shorter time: %d", o.status)
	}
}

// TestWithoutRefreshToken a session ends with its ID token.
func TestWithoutRefreshToken(t *testing.T) {
	b := newBed(t, usualOptions)
	b.issuer.change(func() { b.issuer.offline, b.issuer.answer = true, map[string]any{"expires_in": 1} })
	br := b.loggedIn()
	b.clock.pass(time.Hour - time.Second)
	br.passes("before its end")
	b.clock.pass(2 * time.Second)
	if o := br.do("GET", "/"); o.status != 401 || b.issuer.seen().asked != 1 {
		t.Errorf("after its end: %d", o.status)
	}
}

// TestLargeSession takes several cookies, and no more than a few.
func TestLargeSession(t *testing.T) {
	b := newBed(t, usualOptions)
	for size, want := range map[int]int{10: 1, 2500: 2, 4500: 3, 9500: 5} {
		b.issuer.change(func() { b.issuer.claims = map[string]any{"roles": strings.Repeat("a", size)} })
		br := b.loggedIn()
		if len(br.cookies) != want {
			t.Errorf("%d more bytes take %d cookies, want %d", size, len(br.cookies), want)
		}
		br.passes(fmt.Sprint(size, " more bytes"))
		if want > 2 {
			whole := br.cookies[sessionName+".1"]
			br.cookies[sessionName+".1"] = br.cookies[sessionName+".2"]
			if o := br.serve(br.request("GET", "/")); o.status != 401 {
				t.Errorf("with a part in another's place: %d", o.status)
			}
			delete(br.cookies, sessionName+".1")
			if o := br.serve(br.request("GET", "/")); o.status != 401 {
				t.Errorf("without a part: %d", o.status)
			}
			br.cookies[sessionName+".1"] = whole
			// A smaller one takes the place of all of it.
			b.issuer.change(func() { b.issuer.claims = nil })
			b.clock.pass(time.Hour - time.Second)
			br.passes("refreshed")
			if len(br.cookies) != 1 {
				t.Errorf("a smaller session leaves %d cookies", len(br.cookies))
			}
			b.clock.pass(time.Second - time.Hour)
		}
	}
	b.issuer.change(func() { b.issuer.claims = map[string]any{"roles": strings.Repeat("a", 11000)} })
	br := b.browser()
	if o := br.logIn("/"); o.status != 500 || len(br.cookies) != 0 {
		t.Errorf("a session that fits into no cookies: %d, %v", o.status, o.err)
	}
}

// TestSecrets are changed without anybody who has to log in again.
func TestSecrets(t *testing.T) {
	const one, two = "one one one one one one one one!", "two two two two two two two two!"
	b := newBed(t, usualOptions+", session: {secret: '"+one+"'}")
	old := b.loggedIn().cookies[sessionName]
	b.load(usualOptions + ", session: {secret: ['" + two + "', '" + one + "']}")
	b.browser().passesWith(old)
	fresh := b.loggedIn().cookies[sessionName]
	b.load(usualOptions + ", session: {secret: ['" + two + "']}")
	b.browser().passesWith(fresh)
	br := b.browser()
	if o := br.do("GET", "/", "Cookie: "+sessionName+"="+old); o.status != 401 {
		t.Errorf("of a secret that is gone: %d", o.status)
	}
}

// TestAnotherInstance takes sessions in cookies that this one has made.
func TestAnotherInstance(t *testing.T) {
	b := newBed(t, usualOptions)
	other := b.another(usualOptions)
	other.browser().passesWith(b.loggedIn().cookies[sessionName])
	br := b.browser()
	back := b.issuer.authorize(br.begin("/"))
	br.b = other
	if o := br.visit(back); o.status != 302 {
		t.Errorf("a log-in that another instance has begun: %v", o.err)
	}
}
