package login

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/redistest"
)

const storeOptions = usualOptions + ", session: {store: main}"

// newStoreBed keeps sessions in a Redis of its own.
func newStoreBed(t *testing.T) (*bed, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	clock := newClock()
	b := &bed{t: t, clock: clock, issuer: newIssuer(t, clock.now), store: server.Address, registry: newRegistry()}
	b.load(storeOptions)
	return b, server
}

// keys are the names of what a server keeps.
func keys(t *testing.T, server *redistest.Server) (names []string) {
	t.Helper()
	list, ok := server.Must("KEYS", "*").([]any)
	if !ok {
		t.Fatal("KEYS gives no list")
	}
	for _, one := range list {
		name, ok := one.(string)
		if !ok {
			t.Fatalf("a name is a %T", one)
		}
		names = append(names, name)
	}
	return names
}

// TestStore keeps a session where all instances find it, and nobody else can read it.
func TestStore(t *testing.T) {
	b, server := newStoreBed(t)
	br := b.loggedIn()
	text := br.cookies[sessionName]
	names := keys(t, server)
	if len(text) != 2+idLength || len(names) != 1 || !strings.HasPrefix(names[0], "sluice:session:{") {
		t.Fatalf("the cookie is %q, and the store has %v", text, names)
	}
	if life, ok := server.Must("PTTL", names[0]).(int64); !ok || life > 12*3600*1000 || life < 11*3600*1000 {
		t.Errorf("it is kept for %v", life)
	}
	value, _ := server.Must("GET", names[0]).(string)
	if strings.Contains(names[0]+value, text[2:]) || strings.Contains(value, "ann") {
		t.Error("the store can tell whose session it is, or be it")
	}
	other := b.another(storeOptions)
	other.browser().passesWith(text)
	br.passes("a session in a store")

	// What is under another name is no session, though it is a good one there.
	second := b.loggedIn()
	for _, name := range keys(t, server) {
		if name != names[0] {
			server.Must("SET", name, value)
		}
	}
	if o := second.do("GET", "/"); o.status != 401 {
		t.Errorf("with the session of another: %d", o.status)
	}
	server.Must("SET", names[0], "garbage")
	if o := br.serve(br.request("GET", "/")); o.status != 401 {
		t.Errorf("with garbage: %d", o.status)
	}
	server.Must("DEL", names[0])
	if o := br.do("GET", "/"); o.status != 401 || len(br.cookies) != 0 {
		t.Errorf("with nothing there: %d", o.status)
	}
	for _, text := range []string{"1.", "1.short", "1." + strings.Repeat("A", 100), "1." + random()} {
		br.cookies[sessionName] = text
		if o := br.do("GET", "/"); o.status != 401 {
			t.Errorf("the cookie %q: %d", text, o.status)
		}
	}
}

// TestFixation has a log-in make a new session, whatever the browser came with.
func TestFixation(t *testing.T) {
	b, server := newStoreBed(t)
	br := b.loggedIn()
	old := br.cookies[sessionName]
	if o := br.visit(b.issuer.authorize(br.fresh("/"))); o.status != 302 || br.cookies[sessionName] == old || br.cookies[sessionName] == "" {
		t.Fatalf("the second log-in: %d, %v", o.status, o.err)
	}
	if names := keys(t, server); len(names) != 1 {
		t.Errorf("the session of before is still there: %v", names)
	}
	br = b.browser()
	br.cookies[sessionName] = "1." + strings.Repeat("A", idLength)
	if br.logIn("/"); br.cookies[sessionName] == "1."+strings.Repeat("A", idLength) {
		t.Error("a session that somebody else has named is taken up")
	}
	br.passes("after it")
}

// fresh begins a log-in beside a session that is good, and returns where to.
func (br *browser) fresh(target string) string {
	br.b.t.Helper()
	other := br.b.browser()
	to := other.begin(target)
	for name, value := range other.cookies {
		br.cookies[name] = value
	}
	return to
}

// TestStoreRefresh is one for all instances, and needs no other cookie.
func TestStoreRefresh(t *testing.T) {
	b, server := newStoreBed(t)
	instances := []*bed{b, b.another(storeOptions), b.another(storeOptions)}
	text := b.loggedIn().cookies[sessionName]
	for round := 1; round <= 3; round++ {
		b.over()
		var clients sync.WaitGroup
		for n := range 12 {
			clients.Go(func() {
				br := instances[n%3].browser()
				br.cookies[sessionName] = text
				if o := br.serve(br.request("GET", "/")); !o.passed || o.fields.Has(message.SetCookie) {
					t.Errorf("%d, %v", o.status, o.err)
				}
			})
		}
		clients.Wait()
		if n := b.issuer.seen().refreshed; n != round {
			t.Fatalf("refreshed %d times in round %d", n, round)
		}
	}
	if names := keys(t, server); len(names) != 1 {
		t.Errorf("the store has %v", names)
	}
}

// TestStoreReuse ends a session when its refresh token is refused: nothing of it stays.
func TestStoreReuse(t *testing.T) {
	b, server := newStoreBed(t)
	br := b.loggedIn()
	b.issuer.change(func() { clear(b.issuer.refreshes) })
	b.over()
	if o := br.do("GET", "/"); o.status != 401 || len(br.cookies) != 0 {
		t.Errorf("%d with %v", o.status, br.cookies)
	}
	if names := keys(t, server); len(names) != 0 {
		t.Errorf("the store has %v", names)
	}
}

// TestStoreLogOut ends a session for all instances, also one that is refreshed meanwhile.
func TestStoreLogOut(t *testing.T) {
	b, server := newStoreBed(t)
	br := b.loggedIn()
	text := br.cookies[sessionName]
	b.over()
	thief := b.browser()
	thief.cookies[sessionName] = text
	other := b.another(storeOptions)
	b.issuer.change(func() {
		b.issuer.meanwhile = func() {
			out := other.browser()
			out.cookies[sessionName] = text
			if o := out.do("POST", "/logout"); o.status != 303 {
				t.Errorf("the log-out: %d, %v", o.status, o.err)
			}
		}
	})
	if o := thief.do("GET", "/"); o.status != 401 {
		t.Errorf("a session that ended while it was refreshed: %d", o.status)
	}
	if o := br.do("GET", "/"); o.status != 401 {
		t.Errorf("a session that has ended: %d", o.status)
	}
	if names := keys(t, server); len(names) != 0 {
		t.Errorf("the store has %v", names)
	}
}

// TestStoreGone is no answer to who somebody is: 503, and no cookie is touched.
func TestStoreGone(t *testing.T) {
	b, server := newStoreBed(t)
	br := b.loggedIn()
	back := b.issuer.authorize(br.fresh("/"))
	old := br.cookies[sessionName]
	server.Kill()
	for _, target := range []string{"/", "/logout"} {
		if o := br.do("GET", target); o.status != 503 || br.cookies[sessionName] != old || o.fields.Has(message.SetCookie) {
			t.Errorf("%s: %d with %v", target, o.status, br.cookies)
		}
	}
	if o := br.visit(back); o.status != 503 || br.cookies[sessionName] != old {
		t.Errorf("a log-in: %d with %v", o.status, br.cookies)
	}
	server.Restart()
	if o := br.do("GET", "/"); o.status != 401 {
		t.Errorf("with a store that is empty: %d", o.status)
	}
}

// TestStoreFailsInARefresh keeps what the issuer has given: the refresh token of before is
// spent.
func TestStoreFailsInARefresh(t *testing.T) {
	b, server := newStoreBed(t)
	br := b.loggedIn()
	b.over()
	b.issuer.change(func() {
		b.issuer.meanwhile = func() { server.Signal(syscall.SIGSTOP) }
	})
	resumed := make(chan struct{})
	go func() {
		defer close(resumed)
		waitUntil(t, "the issuer has refreshed", func() bool { return b.issuer.seen().refreshed == 1 })
		<-time.After(100 * time.Millisecond) // the store is silent meanwhile
		server.Signal(syscall.SIGCONT)
	}()
	o := br.do("GET", "/")
	<-resumed
	if !o.passed {
		t.Errorf("%d, %v", o.status, o.err)
	}
	br.passes("after it")
}

// TestLockThatIsLeft by an instance that has ended holds others up for a while only.
func TestLockThatIsLeft(t *testing.T) {
	b, server := newStoreBed(t)
	br := b.loggedIn()
	lock := keys(t, server)[0] + ":lock"
	server.Must("SET", lock, "another", "PX", 300)
	b.over()
	br.passes("after the lock's end")
	if names := keys(t, server); len(names) != 1 {
		t.Errorf("the store has %v", names)
	}
}
