package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"sluice/internal/gatewaytest"
	"sluice/internal/redistest"
)

// page is what a browser shows.
type page struct{ url, text string }

// chromium is a real browser.
type chromium struct {
	t   *testing.T
	tab context.Context //nolint:containedctx // it is how chromedp names a tab
}

func startChromium(t *testing.T) *chromium {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: scripts/test-setup installs it", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.IgnoreCertErrors, chromedp.WSURLReadTimeout(gatewaytest.Patience))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	tab, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(tab); err != nil {
			t.Logf("the browser ends with %v", err)
		}
		closeTab()
		end()
	})
	if err := chromedp.Do(tab); err != nil { // the first time starts it, and may have no end
		t.Fatal(err)
	}
	return &chromium{t, tab}
}

// evaluate has a browser do what has a value.
func evaluate[T any](c *chromium, what string, action chromedp.Action[T]) T {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.tab, 2*gatewaytest.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	return value
}

// do has the browser do something, and returns what it shows then.
func (c *chromium) do(what string, actions ...chromedp.Action[chromedp.Void]) page {
	c.t.Helper()
	for _, action := range actions {
		evaluate(c, what, action)
	}
	return page{evaluate(c, what, chromedp.Location()), evaluate(c, what, chromedp.Text(chromedp.CSS("body")))}
}

func (c *chromium) visit(to string) page {
	c.t.Helper()
	return c.do("go to "+to, chromedp.Navigate(to))
}

// cookies are those that it has for a site.
func (c *chromium) cookies(site string) []*network.Cookie {
	c.t.Helper()
	return evaluate(c, "look at cookies", func(ctx context.Context, t *chromedp.Target) ([]*network.Cookie, error) {
		all, err := cdp.Call(ctx, t, network.GetCookies, network.GetCookiesParams{URLs: []string{site}})
		return all.Cookies, err
	})
}

// script is the status that a script of the page gets.
func (c *chromium) script(path string) int {
	c.t.Helper()
	return evaluate(c, "ask for "+path, chromedp.Evaluate[int](fmt.Sprintf("fetch(%q).then(r => r.status)", path), chromedp.EvalAwaitPromise))
}

// loginSite is a gateway that keeps sessions in cookies or in a store, with its issuer.
func loginSite(t *testing.T, where string) (*openIDProvider, *gatewaytest.Gateway, string) {
	t.Helper()
	stores, session := "", ""
	if where == "a store" {
		stores, session = fmt.Sprintf("main: {redis: {address: %q}}", redistest.Start(t).Address), "store: main"
	}
	issuer := newOpenIDProvider(t)
	gw, site := loginGateway(t, issuer, stores, session)
	issuer.run(site, 4*time.Second)
	return issuer, gw, site
}

// TestLoginByBrowser has people log in, stay in and log out, with a real browser at a real
// issuer, whose keys change and which is away for a while.
func TestLoginByBrowser(t *testing.T) {
	once(t)
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("over TLS all engines but the two are alike")
	}
	for _, where := range []string{"cookies", "a store"} {
		t.Run(where, func(t *testing.T) {
			issuer, gw, site := loginSite(t, where)
			gatewaytest.WaitFor(t, "the gateway knows the issuer", func() bool {
				return strings.Contains(gw.ProcessLog(), "tells of itself again") && strings.Contains(gw.ProcessLog(), "the keys of an issuer have changed")
			})
			byBrowser(t, issuer, site)
		})
	}
}

func byBrowser(t *testing.T, issuer *openIDProvider, site string) {
	t.Helper()
	c := startChromium(t)

	shown := c.visit(site + "/page?a=b")
	if !strings.HasPrefix(shown.url, issuer.url+"login/") {
		t.Fatalf("a browser that is not logged in is at %s: %s", shown.url, shown.text)
	}
	user, password := chromedp.CSS("#username"), chromedp.CSS("#password")
	shown = c.do("log in", chromedp.SendKeys(user, "test-user2"), chromedp.SendKeys(password, "verysecure"), chromedp.Click(chromedp.CSS("button")), chromedp.WaitNotPresent(user))
	if shown.url != site+"/page?a=b" || !strings.HasPrefix(shown.text, "hello id2, ") || !strings.HasSuffix(shown.text, " at /page?a=b, cookies .") {
		t.Fatalf("after the log-in it is at %s: %s", shown.url, shown.text)
	}
	for _, cookie := range c.cookies(site) {
		if !strings.HasPrefix(cookie.Name, "__Host-sluice_session") || !cookie.HTTPOnly || !cookie.Secure || cookie.SameSite != network.CookieSameSiteLax {
			t.Errorf("the cookie %+v", cookie)
		}
	}

	// It stays in while its tokens end, signed with another key each time.
	for range 2 {
		issuer.rotate()
		before := shown.text
		gatewaytest.WaitFor(t, "the session is refreshed", func() bool {
			shown = c.visit(site + "/page?a=b")
			if !strings.HasPrefix(shown.text, "hello id2, ") {
				t.Fatalf("it is at %s: %s", shown.url, shown.text)
			}
			return shown.text != before
		})
	}

	// While the issuer is away it is in, or told to wait; it never has to log in again.
	issuer.down.Store(true)
	gatewaytest.WaitFor(t, "the tokens have ended", func() bool {
		shown = c.visit(site + "/page?a=b")
		if !strings.HasPrefix(shown.text, "hello id2, ") && !strings.Contains(shown.text, "auth_unavailable") {
			t.Fatalf("it is at %s: %s", shown.url, shown.text)
		}
		return strings.Contains(shown.text, "auth_unavailable")
	})
	issuer.down.Store(false)
	gatewaytest.WaitFor(t, "it is in again", func() bool {
		shown = c.visit(site + "/page?a=b")
		if !strings.HasPrefix(shown.text, "hello id2, ") && !strings.Contains(shown.text, "auth_unavailable") {
			t.Fatalf("it is at %s: %s", shown.url, shown.text)
		}
		return strings.HasPrefix(shown.text, "hello id2, ")
	})

	if status := c.script("/api"); status != 200 {
		t.Errorf("a script that is logged in gets %d", status)
	}
	shown = c.do("log out", chromedp.Evaluate[chromedp.Void]("window.location = '/logout'"), chromedp.WaitVisible(chromedp.Search("//*[contains(text(), 'goodbye')]")))
	if shown.url != site+"/bye" || shown.text != "goodbye" {
		t.Errorf("after the log-out it is at %s: %s", shown.url, shown.text)
	}
	if left := c.cookies(site); len(left) != 0 {
		t.Errorf("after the log-out it has %d cookies", len(left))
	}
	if status := c.script("/api"); status != 401 {
		t.Errorf("a script that is not logged in gets %d", status)
	}
	if shown = c.visit(site + "/page"); !strings.HasPrefix(shown.url, issuer.url+"login/") {
		t.Errorf("after the log-out the page is at %s: %s", shown.url, shown.text)
	}
}
