package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/certtest"
	"sluice/internal/model"
	"sluice/internal/pemfile"
)

// promised is the time in which a change is served.
const promised = 2 * time.Second

// The ways to save a pair. one.pem and one.key are what the listener names.
type way struct {
	name  string
	setup func(b *bed, pair *certtest.Certificate) // before it is served first
	save  func(b *bed, pair *certtest.Certificate)
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// volume lays a pair out as kubelet does; swap puts another in its place.
func (b *bed) volume(dir string, pair *certtest.Certificate) {
	b.t.Helper()
	b.must(os.Mkdir(b.path(dir), 0o700))
	b.write(dir+"/tls.crt", pair.CertPEM())
	b.write(dir+"/tls.key", pair.KeyPEM())
}

func (b *bed) relink(target, name string) {
	b.t.Helper()
	b.must(os.Symlink(target, b.path(name+".new")))
	b.must(os.Rename(b.path(name+".new"), b.path(name)))
}

func ways() []way {
	plain := func(b *bed, pair *certtest.Certificate) { b.save("one", pair) }
	return []way{
		{"in place", plain, func(b *bed, pair *certtest.Certificate) { b.save("one", pair) }},
		{"the key first", plain, func(b *bed, pair *certtest.Certificate) {
			b.write("one.key", pair.KeyPEM())
			b.write("one.pem", pair.CertPEM())
		}},
		{"slowly, the certificate first", plain, func(b *bed, pair *certtest.Certificate) {
			b.write("one.pem", pair.CertPEM())
			time.Sleep(10 * time.Second)
			b.write("one.key", pair.KeyPEM())
		}},
		{"slowly, the key first", plain, func(b *bed, pair *certtest.Certificate) {
			b.write("one.key", pair.KeyPEM())
			time.Sleep(10 * time.Second)
			b.write("one.pem", pair.CertPEM())
		}},
		{"piece by piece", plain, func(b *bed, pair *certtest.Certificate) {
			for _, file := range []struct {
				name    string
				content []byte
			}{{"one.pem", pair.CertPEM()}, {"one.key", pair.KeyPEM()}} {
				for end := 0; end < len(file.content); end += 50 {
					b.write(file.name, file.content[:end])
					time.Sleep(70 * time.Millisecond)
				}
				b.write(file.name, file.content)
			}
		}},
		{"renamed over", plain, func(b *bed, pair *certtest.Certificate) {
			b.save("tmp", pair)
			b.must(os.Rename(b.path("tmp.pem"), b.path("one.pem")))
			b.must(os.Rename(b.path("tmp.key"), b.path("one.key")))
		}},
		{"removed and made anew", plain, func(b *bed, pair *certtest.Certificate) {
			b.must(os.Remove(b.path("one.pem")))
			b.must(os.Remove(b.path("one.key")))
			time.Sleep(5 * time.Second)
			b.save("one", pair)
		}},
		{"a link of each file", func(b *bed, pair *certtest.Certificate) {
			b.save("v1", pair)
			b.relink("v1.pem", "one.pem")
			b.relink("v1.key", "one.key")
		}, func(b *bed, pair *certtest.Certificate) {
			b.save("v2", pair)
			b.relink("v2.pem", "one.pem")
			b.relink("v2.key", "one.key")
		}},
		{"Kubernetes: ..data is swapped", func(b *bed, pair *certtest.Certificate) {
			b.volume("..1", pair)
			b.relink("..1", "..data")
			b.must(os.Symlink("..data/tls.crt", b.path("one.pem")))
			b.must(os.Symlink("..data/tls.key", b.path("one.key")))
		}, func(b *bed, pair *certtest.Certificate) {
			b.volume("..2", pair)
			b.relink("..2", "..data")
			b.must(os.RemoveAll(b.path("..1")))
		}},
		{"another directory takes the place", func(b *bed, pair *certtest.Certificate) {
			b.volume("live", pair)
			b.must(os.Symlink("live/tls.crt", b.path("one.pem")))
			b.must(os.Symlink("live/tls.key", b.path("one.key")))
		}, func(b *bed, pair *certtest.Certificate) {
			b.volume("next", pair)
			b.must(os.Rename(b.path("live"), b.path("old")))
			b.must(os.Rename(b.path("next"), b.path("live")))
		}},
	}
}

func TestChangedFilesAreServed(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				defer b.end()
				old, fresh := b.ca.Issue("one.test"), b.ca.Issue("one.test", "two.test")
				w.setup(b, old)
				b.serve(settings(b.file("one")))
				b.expect("before", b.client("one.test"), old)
				time.Sleep(time.Minute) // nothing to do
				w.save(b, fresh)
				time.Sleep(promised)
				b.expect("after", b.client("one.test"), fresh)
				b.expect("its new name", b.client("two.test"), fresh)
				if status := b.set.Status()[0]; status.Error != "" || status.Serial != fresh.SerialNumber.Text(16) {
					t.Errorf("%+v", status)
				}
				if n := b.logged.Count("TLS files changed"); n != 1 {
					t.Errorf("told %d times:\n%s", n, b.logged)
				}
				// It goes on to be watched where it is now.
				b.save("one", old)
				time.Sleep(promised)
				b.expect("at last", b.client("one.test"), old)
			})
		})
	}
}

// Only half of a renewed chain may never be shown: it fits the old key.
func TestHalfAChainIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer b.end()
		key := certtest.NewKey(t)
		old, fresh := b.ca.IssueFor(key, nil, "one.test"), b.ca.IssueFor(key, nil, "one.test")
		b.serve(settings(b.save("one", old)))
		middle := len(b.ca.CertPEM()) / 2
		time.Sleep(time.Millisecond) // files are not written at the very time of a look
		for _, content := range [][]byte{fresh.CertPEM(), slices.Concat(fresh.CertPEM(), b.ca.CertPEM()[:middle])} {
			for i := range 17 { // more is being written all the while, beyond a look, and for less than longest
				b.write("one.pem", slices.Concat(content, bytes.Repeat([]byte("\n"), i)))
				time.Sleep(settle/2 + time.Millisecond)
				b.expect("half", b.client("one.test"), old)
			}
			b.write("one.pem", old.CertPEM())
			time.Sleep(promised)
		}
		b.write("one.pem", append(bytes.Clone(fresh.CertPEM()), b.ca.CertPEM()...))
		time.Sleep(promised)
		if o := b.shake(b.client("one.test")); o.err != nil || len(o.client.PeerCertificates) != 2 {
			t.Errorf("the whole: %d, %v", len(o.client.PeerCertificates), o.err)
		}
	})
}

// Files that change all the time are taken when they make a pair.
func TestFilesThatNeverRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer b.end()
		old, fresh := b.ca.Issue("one.test"), b.ca.Issue("one.test")
		b.serve(settings(b.save("one", old)))
		const step = settle/2 + time.Millisecond // never at the time of a look
		time.Sleep(time.Millisecond)
		for i := range 3 * promised / step {
			if i == promised/step {
				b.write("one.key", fresh.KeyPEM())
			}
			b.write("one.pem", slices.Concat(fresh.CertPEM(), bytes.Repeat([]byte("\n"), int(i))))
			time.Sleep(step)
			if i == 2*promised/step {
				b.expect("after 2 s of restlessness", b.client("one.test"), fresh)
			}
		}
		if b.logged.Count("cannot be taken up") != 0 {
			t.Errorf("told, although a pair came:\n%s", b.logged)
		}
	})
}

func TestBrokenFilesLeaveTheOldPair(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(b *bed, fresh *certtest.Certificate)
		want  string // in the error
	}{
		{"another key", func(b *bed, fresh *certtest.Certificate) { b.write("one.key", fresh.KeyPEM()) }, "one.key: the key is not that of the certificate"},
		{"another certificate", func(b *bed, fresh *certtest.Certificate) { b.write("one.pem", fresh.CertPEM()) }, "one.key: the key is not that of the certificate"},
		{"garbage", func(b *bed, _ *certtest.Certificate) { b.write("one.pem", []byte("garbage")) }, "one.pem: the file has no certificate"},
		{"emptied", func(b *bed, _ *certtest.Certificate) { b.write("one.key", nil) }, "one.key: the file is empty"},
		{"gone", func(b *bed, _ *certtest.Certificate) { b.must(os.Remove(b.path("one.key"))) }, "one.key: the file does not exist"},
		{"both gone", func(b *bed, _ *certtest.Certificate) {
			b.must(os.Remove(b.path("one.key")))
			b.must(os.Remove(b.path("one.pem")))
		}, "one.pem: the file does not exist"},
		{"a directory", func(b *bed, _ *certtest.Certificate) {
			b.must(os.Remove(b.path("one.pem")))
			b.must(os.Mkdir(b.path("one.pem"), 0o700))
		}, "one.pem: this is a directory, not a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				defer b.end()
				old, fresh := b.ca.Issue("one.test"), b.ca.Issue("one.test")
				b.serve(settings(b.save("one", old)))
				begin := time.Now()
				c.spoil(b, fresh)
				time.Sleep(grace / 2)
				if b.logged.Count("cannot be taken up") != 0 {
					t.Errorf("told at once:\n%s", b.logged)
				}
				time.Sleep(time.Minute)
				b.expect("spoiled", b.client("one.test"), old)
				status := b.set.Status()[0]
				if !strings.HasPrefix(status.Error, b.dir) || !strings.Contains(status.Error, c.want) || status.Since.Sub(begin) > promised || !status.Loaded.Equal(begin) || status.Serial != old.SerialNumber.Text(16) {
					t.Errorf("%+v", status)
				}
				if n := b.logged.Count("cannot be taken up"); n != 1 {
					t.Errorf("told %d times:\n%s", n, b.logged)
				}

				// As it was.
				b.must(os.RemoveAll(b.path("one.pem")))
				b.save("one", old)
				time.Sleep(promised)
				if status := b.set.Status()[0]; status.Error != "" || !status.Since.IsZero() || !status.Loaded.Equal(begin) {
					t.Errorf("as it was: %+v", status)
				}
				if n := b.logged.Count("again what is shown"); n != 1 || b.logged.Count("TLS files changed") != 0 {
					t.Errorf("told %d times:\n%s", n, b.logged)
				}

				// The next fault is told again, and ends with a new pair.
				c.spoil(b, fresh)
				time.Sleep(time.Minute)
				if n := b.logged.Count("cannot be taken up"); n != 2 {
					t.Errorf("told %d times:\n%s", n, b.logged)
				}
				b.must(os.RemoveAll(b.path("one.pem")))
				b.save("one", fresh)
				time.Sleep(promised)
				b.expect("mended", b.client("one.test"), fresh)
				if status := b.set.Status()[0]; status.Error != "" || !status.Loaded.After(begin) {
					t.Errorf("mended: %+v", status)
				}
			})
		})
	}
}

// A fault that becomes another one is told of; the time is that of the first.
func TestOneFaultAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer b.end()
		b.serve(settings(b.save("one", b.ca.Issue("one.test"))))
		b.write("one.pem", []byte("garbage"))
		time.Sleep(promised)
		first := b.set.Status()[0].Since
		time.Sleep(time.Minute)
		b.write("one.pem", nil)
		time.Sleep(time.Minute)
		status := b.set.Status()[0]
		if !strings.Contains(status.Error, "is empty") || first.IsZero() || !status.Since.Equal(first) || b.logged.Count("cannot be taken up") != 2 {
			t.Errorf("%+v\n%s", status, b.logged)
		}
	})
}

// A change that neither size nor time tells of is found by reading.
func TestChangeThatDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer b.end()
		key := certtest.NewKey(t)
		old := b.ca.IssueFor(key, nil, "one.test")
		fresh := b.ca.IssueFor(key, nil, "one.test")
		for len(fresh.CertPEM()) != len(old.CertPEM()) { // signatures vary by a byte
			fresh = b.ca.IssueFor(key, nil, "one.test")
		}
		ancient := time.Now().AddDate(-1, 0, 0)
		set := func() {
			for _, name := range []string{"one.pem", "one.key"} {
				b.must(os.Chtimes(b.path(name), ancient, ancient))
			}
		}
		b.save("one", old)
		set()
		b.serve(settings(b.file("one")))
		time.Sleep(readEvery/2 + time.Millisecond) // not at the very time of a look
		b.write("one.pem", fresh.CertPEM())
		set()
		time.Sleep(readEvery / 4)
		b.expect("which shows that it does not show", b.client("one.test"), old)
		time.Sleep(readEvery)
		b.expect("after half a minute", b.client("one.test"), fresh)
	})
}

// A file's time that is recent, or lies in the future, tells nothing.
func TestAltered(t *testing.T) {
	b := newBed(t)
	b.write("x", []byte("a"))
	now := time.Now()
	touch := func(at time.Time) { b.must(os.Chtimes(b.path("x"), at, at)) }
	w := &watched[tls.Certificate]{paths: []string{b.path("x")}}
	look := func() { _, _ = w.readAll(now) }
	old := now.Add(-time.Hour)
	for _, c := range []struct {
		name string
		do   func()
		want bool
	}{
		{"at rest", func() { touch(old); look() }, false},
		{"touched", func() { touch(old.Add(time.Second)) }, true},
		{"another size", func() { touch(old); look(); b.write("x", []byte("ab")); touch(old) }, true},
		{"another file", func() { look(); b.write("y", []byte("ab")); b.must(os.Rename(b.path("y"), b.path("x"))); touch(old) }, true},
		{"just written", func() { touch(now.Add(-coarse / 2)); look() }, true},
		{"written in the future", func() { touch(now.Add(time.Hour)); look() }, true},
		{"gone", func() { touch(old); look(); b.must(os.Remove(b.path("x"))) }, true},
		{"still gone", look, false},
		{"back", func() { b.write("x", nil) }, true},
		{"long not read", func() { touch(old); look(); w.read = now.Add(-readEvery) }, true},
	} {
		c.do()
		if got := w.altered(now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestAuthoritiesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer b.end()
		first, second := certtest.Authority(t, "first"), certtest.Authority(t, "second")
		alice, bob := first.Issue("alice"), second.Issue("bob")
		b.write("clients.pem", first.CertPEM())
		m := settings(b.save("one", b.ca.Issue("one.test")))
		m.ClientAuth = model.ClientAuth{Mode: model.ClientAuthRequire, CA: b.path("clients.pem")}
		b.serve(m)
		passes := func(when string, alicePasses, bobPasses bool) {
			t.Helper()
			for _, c := range []struct {
				who    *certtest.Certificate
				passes bool
			}{{alice, alicePasses}, {bob, bobPasses}} {
				if o := b.shake(b.client("one.test", shows(c.who))); (o.err == nil) != c.passes {
					t.Errorf("%s, %v: %v", when, c.who.DNSNames, o.err)
				}
			}
		}
		passes("first", true, false)
		b.write("clients.pem", slices.Concat(first.CertPEM(), second.CertPEM()))
		time.Sleep(promised)
		passes("both", true, true)
		b.write("clients.pem", []byte("broken"))
		time.Sleep(time.Minute)
		passes("broken", true, true)
		if status := b.set.Status()[1]; status.Kind != "authorities" || status.Cert != b.path("clients.pem") || status.Key != "" || status.Certificates != 2 || status.NotAfter.IsZero() || !strings.Contains(status.Error, "clients.pem: the file has no certificate") {
			t.Errorf("%+v", status)
		}
		b.write("clients.pem", second.CertPEM())
		time.Sleep(promised)
		passes("second", false, true)
		if status := b.set.Status()[1]; status.Error != "" || status.Certificates != 1 {
			t.Errorf("%+v", status)
		}
	})
}

func TestEndIsToldOnce(t *testing.T) {
	b := newBed(t)
	now := time.Now()
	pair := func(d time.Duration) *tls.Certificate {
		c := b.ca.IssueFor(certtest.NewKey(t), func(c *x509.Certificate) { c.NotAfter = now.Add(d) }, "one.test").TLS()
		return &c
	}
	w := &watched[tls.Certificate]{paths: []string{"one.pem", "one.key"}, log: b.options().log(), leaf: leaf}
	w.parse = func([][]byte) (*tls.Certificate, *pemfile.Fault) { return pair(10 * 24 * time.Hour), nil }
	w.take(nil, nil, now)
	const day = 24 * time.Hour
	for _, c := range []struct {
		after         time.Duration
		soon, expired int
	}{{0, 0, 0}, {2 * day, 0, 0}, {3*day + time.Hour, 1, 0}, {9 * day, 1, 0}, {10*day + time.Hour, 1, 1}, {20 * day, 1, 1}} {
		for range 3 {
			w.tell(now.Add(c.after))
		}
		if soon, expired := b.logged.Count("expires soon"), b.logged.Count("has expired"); soon != c.soon || expired != c.expired {
			t.Errorf("after %v: %d, %d\n%s", c.after, soon, expired, b.logged)
		}
	}
	// One from the past is told of at once; it never was to expire soon.
	w.parse = func([][]byte) (*tls.Certificate, *pemfile.Fault) { return pair(-time.Minute), nil }
	w.take(nil, nil, now)
	w.tell(now)
	w.tell(now)
	if soon, expired := b.logged.Count("expires soon"), b.logged.Count("has expired"); soon != 1 || expired != 2 {
		t.Errorf("another: %d, %d\n%s", soon, expired, b.logged)
	}
}

func TestStatus(t *testing.T) {
	b := newBed(t)
	defer b.end()
	one := b.ca.Issue("one.test", "*.one.test")
	b.serve(settings(b.save("one", one)))
	all := b.set.Status()
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	got := all[0]
	if got.Kind != "certificate" || got.Cert != b.path("one.pem") || got.Key != b.path("one.key") || !slices.Equal(got.Names, []string{"one.test", "*.one.test"}) ||
		!got.NotAfter.Equal(one.NotAfter) || !got.NotBefore.Equal(one.NotBefore) || got.KeyType != "ECDSA" || got.Issuer != "CN=authority" || got.Loaded.IsZero() || got.Error != "" {
		t.Errorf("%+v", got)
	}
	if filepath.Dir(got.Cert) != b.dir {
		t.Error(got.Cert)
	}
}
