package certificate

import (
	"crypto/tls"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/certtest"
	"sluice/internal/model"
)

// remembers gives a client sessions of its own.
func remembers() func(*tls.Config) {
	cache := tls.NewLRUClientSessionCache(4)
	return func(c *tls.Config) { c.ClientSessionCache = cache }
}

func TestSessionsOutliveReloads(t *testing.T) {
	for name, version := range map[string]func(*tls.Config){"TLS 1.2": only12, "TLS 1.3": func(*tls.Config) {}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			defer b.end()
			first, second := certtest.Authority(t, "first"), certtest.Authority(t, "second")
			alice := first.Issue("alice")
			b.write("first.pem", first.CertPEM())
			b.write("same.pem", slices.Concat([]byte("# the same\n"), first.CertPEM(), first.CertPEM()))
			b.write("both.pem", slices.Concat(second.CertPEM(), first.CertPEM()))
			b.write("second.pem", second.CertPEM())
			one, two := b.save("one", b.ca.Issue("one.test")), b.save("two", b.ca.Issue("one.test"))
			asks := func(mode, ca string, files ...model.CertificateFile) *model.ListenerTLS {
				m := settings(files...)
				m.ClientAuth.Mode = mode
				if ca != "" {
					m.ClientAuth.CA = b.path(ca)
				}
				return m
			}
			none, optional, require := model.ClientAuthNone, model.ClientAuthOptional, model.ClientAuthRequire

			// Each client comes once, then the settings change, then it comes again.
			for _, c := range []struct {
				name          string
				before, after *model.ListenerTLS
				shows         bool // a certificate
				resumes       bool
				refused       bool // instead
			}{
				{"nothing changed", asks(none, "", one), asks(none, "", one), false, true, false},
				{"other certificates", asks(none, "", one), asks(none, "", two, one), false, true, false},
				{"asked now", asks(none, "", one), asks(require, "first.pem", one), false, false, true},
				{"asked now, and shows one", asks(none, "", one), asks(require, "first.pem", one), true, false, false},
				{"may show one now", asks(none, "", one), asks(optional, "first.pem", one), true, false, false},
				{"required now", asks(optional, "first.pem", one), asks(require, "first.pem", one), false, false, true},
				{"required now, and showed one", asks(optional, "first.pem", one), asks(require, "first.pem", one), true, false, false},
				{"asked as before", asks(require, "first.pem", one), asks(require, "first.pem", two), true, true, false},
				{"equal authorities", asks(require, "first.pem", one), asks(require, "same.pem", one), true, true, false},
				{"one more authority", asks(require, "first.pem", one), asks(require, "both.pem", one), true, false, false},
				{"another authority", asks(require, "both.pem", one), asks(require, "second.pem", one), true, false, true},
				{"another authority, optional", asks(optional, "first.pem", one), asks(optional, "second.pem", one), true, false, true},
				{"not asked any more", asks(require, "first.pem", one), asks(none, "", one), true, false, false},
			} {
				edits := []func(*tls.Config){version, remembers()}
				if c.shows {
					edits = append(edits, shows(alice))
				}
				client := b.client("one.test", edits...)
				b.serve(c.before)
				if o := b.shake(client); o.err != nil || o.server.DidResume {
					t.Errorf("%s: before: %v, resumed %v", c.name, o.err, o.server.DidResume)
				}
				if o := b.shake(client); o.err != nil || !o.server.DidResume {
					t.Errorf("%s: unchanged: %v, resumed %v", c.name, o.err, o.server.DidResume)
				}
				b.serve(c.after)
				o := b.shake(client)
				if (o.err != nil) != c.refused || o.err == nil && o.server.DidResume != c.resumes {
					t.Errorf("%s: after: %v, resumed %v", c.name, o.err, o.server.DidResume)
				}
				asked := c.after.ClientAuth.Mode != none
				if identity := Client(o.server); o.err == nil && (identity != nil) != (c.shows && asked) {
					t.Errorf("%s: after: is %+v", c.name, identity)
				}
			}
		})
	}
}

// Authorities that change in their file end the sessions that others vouched for.
func TestSessionsEndWithTheirAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer b.end()
		first, second := certtest.Authority(t, "first"), certtest.Authority(t, "second")
		b.write("ca.pem", first.CertPEM())
		m := settings(b.save("one", b.ca.Issue("one.test")))
		m.ClientAuth = model.ClientAuth{Mode: model.ClientAuthRequire, CA: b.path("ca.pem")}
		b.serve(m)
		client := b.client("one.test", remembers(), shows(first.Issue("alice")))
		for i := range 2 {
			if o := b.shake(client); o.err != nil || o.server.DidResume != (i > 0) {
				t.Fatalf("%d: %v, resumed %v", i, o.err, o.server.DidResume)
			}
		}
		b.write("ca.pem", second.CertPEM())
		time.Sleep(promised)
		if o := b.shake(client); o.err == nil {
			t.Error("a session outlives the authority")
		}
	})
}

func TestSessionsOfTwoListeners(t *testing.T) {
	b := newBed(t)
	defer b.end()
	b.serve(settings(b.save("one", b.ca.Issue("one.test"))))
	client := b.client("one.test", remembers())
	b.shake(client)
	other := NewHandshake()
	other.Use(Serving{Set: b.set, Protocols: []string{"h2"}})
	if o := shake(t, other.Config(), client, nil); o.err != nil || o.server.DidResume {
		t.Errorf("%v, resumed %v", o.err, o.server.DidResume)
	}
}

// unwatched serves without a commit: nothing runs, so that days pass quickly.
func (b *bed) unwatched(m *model.ListenerTLS) {
	b.leases = b.registry.NewSet()
	b.set = Acquire(b.leases, m, b.options())
	b.handshake.Use(Serving{Set: b.set, Protocols: []string{"h2"}})
}

func TestTicketKeysRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer b.end()
		b.unwatched(settings(b.save("one", b.ca.Issue("one.test"))))
		for _, c := range []struct {
			rest    time.Duration
			resumes bool
		}{
			{0, true},
			{rotation - time.Second, true},
			{rotation + time.Second, true}, // by the key before
			{24 * time.Hour, true},
			{keptSecrets*rotation + time.Second, false},
			{5 * 24 * time.Hour, false},
		} {
			client := b.client("one.test", remembers())
			b.shake(client)
			// Others come meanwhile: without them no key would be replaced.
			for end := time.Now().Add(c.rest); time.Now().Before(end); {
				time.Sleep(min(time.Hour, time.Until(end)))
				b.expectNothing()
			}
			if o := b.shake(client); o.err != nil || o.server.DidResume != c.resumes {
				t.Errorf("after %v: %v, resumed %v", c.rest, o.err, o.server.DidResume)
			}
			if o := b.shake(client); o.err != nil || !o.server.DidResume {
				t.Errorf("after %v the new ticket is no good: %v", c.rest, o.err)
			}
		}
		// Nor does a key outlive its time where nobody came.
		client := b.client("one.test", remembers())
		b.shake(client)
		time.Sleep(keptSecrets*rotation + time.Second)
		if o := b.shake(client); o.err != nil || o.server.DidResume {
			t.Errorf("after a silence: %v, resumed %v", o.err, o.server.DidResume)
		}
	})
}

// expectNothing asks for the configuration as a client does.
func (b *bed) expectNothing() {
	b.t.Helper()
	if config, err := b.handshake.Config().GetConfigForClient(&tls.ClientHelloInfo{}); config == nil || err != nil {
		b.t.Error(config, err)
	}
}

func TestTickets(t *testing.T) {
	var a tickets
	now := time.Now()
	keys, until := a.keys("one", now)
	if len(keys) != 1 || !until.Equal(now.Add(rotation)) {
		t.Errorf("%d keys until %v", len(keys), until)
	}
	same, _ := a.keys("one", now.Add(rotation-1))
	other, _ := a.keys("two", now)
	if !slices.Equal(same, keys) || slices.Equal(other, keys) {
		t.Error("keys are not of the scope")
	}
	next, until := a.keys("one", now.Add(rotation))
	if len(next) != 2 || next[0] == keys[0] || next[1] != keys[0] || !until.Equal(now.Add(2*rotation)) {
		t.Errorf("%d keys until %v", len(next), until)
	}
	for i := range 5 {
		next, _ = a.keys("one", now.Add(time.Duration(i+2)*rotation))
	}
	if len(next) != keptSecrets || slices.Contains(next, keys[0]) {
		t.Errorf("%d keys", len(next))
	}
	if next, _ = a.keys("one", now.AddDate(1, 0, 0)); len(next) != 1 {
		t.Errorf("after a year: %d keys", len(next))
	}
}
