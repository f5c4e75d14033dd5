package e2e

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// formID finds what the issuer's form has of a log-in.
var formID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// loggedIn is a client that has logged in, as a browser does.
func loggedIn(t *testing.T, issuer *openIDProvider, site string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport, Jar: jar, Timeout: gatewaytest.Patience}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site+"/page", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html")
	_, page := sent(c, request)
	form := formID.FindStringSubmatch(page)
	if form == nil {
		t.Fatalf("the issuer shows no form: %s", page)
	}
	request, err = http.NewRequestWithContext(t.Context(), http.MethodPost, issuer.url+"login/username", strings.NewReader(url.Values{"id": {form[1]}, "username": {"test-user2"}, "password": {"verysecure"}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if _, text := sent(c, request); !strings.HasPrefix(text, "hello id2, ") {
		t.Fatalf("after the log-in: %s", text)
	}
	return c
}

// TestLoginUnderLoad has nobody log in again while tokens end, keys change and the issuer
// is away: whoever is logged in passes, or is told to come again while nobody can know.
// With -long it is away for a minute.
func TestLoginUnderLoad(t *testing.T) {
	once(t)
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("over TLS all engines but the two are alike")
	}
	for _, where := range []string{"cookies", "a store"} {
		t.Run(where, func(t *testing.T) {
			issuer, gw, site := loginSite(t, where)
			gatewaytest.WaitFor(t, "the gateway knows the issuer", func() bool { return strings.Contains(gw.ProcessLog(), "the keys of an issuer have changed") })
			underLoad(t, issuer, site)
		})
	}
}

// loginAnswers are how often each status came.
type loginAnswers struct{ good, away, bad atomic.Int64 }

func underLoad(t *testing.T, issuer *openIDProvider, site string) {
	t.Helper()
	const people, tabs = 4, 3
	var count loginAnswers
	var away, over atomic.Bool
	var seen sync.Map // what the destination was told of tokens
	var running sync.WaitGroup
	for range people {
		c := loggedIn(t, issuer, site)
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for range tabs {
			running.Go(func() {
				for !over.Load() {
					wasAway := away.Load()
					status, text := fetched(t, c, site+"/api")
					switch {
					case status == 200:
						count.good.Add(1)
						seen.Store(text, true)
					case status == 503 && (wasAway || away.Load()):
						count.away.Add(1)
					default:
						count.bad.Add(1)
						t.Errorf("%d: %s", status, text)
						return
					}
					<-time.After(20 * time.Millisecond)
				}
			})
		}
	}
	states := func() (n int) {
		seen.Range(func(any, any) bool { n++; return true })
		return n
	}
	further := func(what string, n int) {
		before := states()
		gatewaytest.WaitFor(t, what, func() bool { return states() >= before+n || count.bad.Load() > 0 })
	}
	further("sessions are refreshed", 2)
	for range 2 {
		issuer.rotate()
		further("sessions are refreshed with another key", 2)
	}
	away.Store(true)
	issuer.down.Store(true)
	began := time.Now()
	gatewaytest.WaitFor(t, "the tokens have ended", func() bool { return count.away.Load() > 10 || count.bad.Load() > 0 })
	for *long && time.Since(began) < time.Minute && count.bad.Load() == 0 {
		before := count.away.Load()
		gatewaytest.WaitFor(t, "people are told to come again", func() bool { return count.away.Load() > before || count.bad.Load() > 0 })
	}
	issuer.down.Store(false)
	lasted := time.Since(began)
	further("sessions go on", 2)
	over.Store(true)
	running.Wait()
	t.Logf("%d answers, %d while nobody could know, %d bad; %d states of tokens; away for %v", count.good.Load(), count.away.Load(), count.bad.Load(), states(), lasted.Round(time.Millisecond))
}

func fetched(t *testing.T, c *http.Client, to string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	return sent(c, request)
}

// sent sends a request; without an answer the status is 0, and the text says why.
func sent(c *http.Client, request *http.Request) (status int, text string) {
	response, err := c.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}
