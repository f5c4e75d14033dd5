package certificate

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/certtest"
	"sluice/internal/lease"
	"sluice/internal/model"
)

func TestBuildStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		one := b.ca.Issue("one.test")
		leases := b.registry.NewSet()
		set := Acquire(leases, settings(b.save("one", one)), b.options())
		if status := set.Status()[0]; status.Serial != one.SerialNumber.Text(16) {
			t.Errorf("not read: %+v", status)
		}
		b.save("one", b.ca.Issue("one.test"))
		time.Sleep(promised)
		if status := set.Status()[0]; status.Serial != one.SerialNumber.Text(16) {
			t.Errorf("watched before the commit: %+v", status)
		}
		leases.Release() // goroutines would be found at the end
	})
}

func TestChangesBetweenBuildAndCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer b.end()
		fresh := b.ca.Issue("one.test")
		b.leases = b.registry.NewSet()
		set := Acquire(b.leases, settings(b.save("one", b.ca.Issue("one.test"))), b.options())
		b.save("one", fresh)
		if err := b.leases.Commit(); err != nil {
			t.Fatal(err)
		}
		b.handshake.Use(Serving{Set: set})
		time.Sleep(promised)
		b.expect("after", b.client("one.test", func(c *tls.Config) { c.NextProtos = nil }), fresh)
	})
}

func TestMissingFilesFailTheCommit(t *testing.T) {
	b := newBed(t)
	one := b.ca.Issue("one.test")
	b.write("one.pem", one.CertPEM())
	b.write("ca.pem", []byte("x"))
	withCA := settings()
	withCA.ClientAuth = model.ClientAuth{Mode: model.ClientAuthRequire, CA: b.path("ca.pem")}
	for _, c := range []struct {
		m    *model.ListenerTLS
		want string
	}{
		{settings(b.file("one")), "one.key: the file does not exist"},
		{withCA, "ca.pem: the file has no certificate"},
	} {
		leases := b.registry.NewSet()
		set := Acquire(leases, c.m, b.options())
		if err := leases.Commit(); err == nil || !strings.Contains(err.Error(), b.path(c.want)) {
			t.Errorf("%v", err)
		}
		for _, status := range set.Status() {
			if !strings.Contains(status.Error, c.want) || !status.NotAfter.IsZero() {
				t.Errorf("%+v", status)
			}
		}
		leases.Release()
	}

	// The same set, once the file is there.
	leases := b.registry.NewSet()
	set := Acquire(leases, settings(b.file("one")), b.options())
	if err := leases.Commit(); err == nil {
		t.Error("no error")
	}
	b.write("one.key", one.KeyPEM())
	if err := leases.Commit(); err != nil {
		t.Error(err)
	}
	if set.table.Load().fallback(&tls.ClientHelloInfo{}) == nil || set.Status()[0].Error != "" {
		t.Errorf("nothing to show: %+v", set.Status())
	}
	leases.Release()
	if err := b.registry.Idle(); err != nil {
		t.Error(err)
	}
}

func TestUnknownModeIsABug(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "BUG:") {
			t.Errorf("got %s", got)
		}
	}()
	m := settings()
	m.ClientAuth.Mode = "perhaps"
	Acquire(new(lease.Registry).NewSet(), m, Options{})
}

func TestServingBeforeTheCommitIsABug(t *testing.T) {
	b := newBed(t)
	m := settings()
	m.ClientAuth = model.ClientAuth{Mode: model.ClientAuthRequire, CA: b.path("none.pem")}
	set := Acquire(b.registry.NewSet(), m, Options{})
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "BUG:") {
			t.Errorf("got %s", got)
		}
	}()
	b.handshake.Use(Serving{Set: set})
}

// Listeners share what they have in common, and so do reloads.
func TestPairsAreShared(t *testing.T) {
	b := newBed(t)
	one, two := b.save("one", b.ca.Issue("one.test")), b.save("two", b.ca.Issue("two.test"))
	b.write("ca.pem", b.ca.CertPEM())
	strict := settings(one)
	strict.ClientAuth = model.ClientAuth{Mode: model.ClientAuthRequire, CA: b.path("ca.pem")}
	leases := b.registry.NewSet()
	first, second, third, again := Acquire(leases, settings(one, two), b.options()), Acquire(leases, settings(one), b.options()), Acquire(leases, strict, b.options()), Acquire(leases, settings(one, two), b.options())
	if first != again || first == second || first.pairs[0] != second.pairs[0] || first.pairs[0] != third.pairs[0] {
		t.Error("what is equal is not shared")
	}
	if err := leases.Commit(); err != nil {
		t.Fatal(err)
	}
	w := first.watch
	watched := func() (items, sets int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.items), len(w.sets)
	}
	if items, sets := watched(); items != 3 || sets != 3 {
		t.Errorf("%d files, %d sets", items, sets)
	}
	// A reload without the second pair and the authorities.
	next := b.registry.NewSet()
	if Acquire(next, settings(one), b.options()) != second {
		t.Error("a reload makes a new set of the same")
	}
	if err := next.Commit(); err != nil {
		t.Fatal(err)
	}
	leases.Release()
	if items, sets := watched(); items != 1 || sets != 1 {
		t.Errorf("%d files, %d sets", items, sets)
	}
	next.Release()
	if items, sets := watched(); items != 0 || sets != 0 {
		t.Errorf("%d files, %d sets", items, sets)
	}
	if err := b.registry.Idle(); err != nil {
		t.Error(err)
	}
}

// For who speaks TLS to others.
func TestPairAndAuthoritiesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		one, fresh := b.ca.Issue("one.test"), b.ca.Issue("one.test")
		b.write("ca.pem", b.ca.CertPEM())
		leases := b.registry.NewSet()
		pair, authorities := AcquirePair(leases, b.save("one", one), Options{}), AcquireAuthorities(leases, b.path("ca.pem"), Options{})
		if err := leases.Commit(); err != nil {
			t.Fatal(err)
		}
		b.save("one", fresh)
		b.write("ca.pem", append(certtest.Authority(t, "more").CertPEM(), b.ca.CertPEM()...))
		time.Sleep(promised)
		if !pair.Certificate().Leaf.Equal(fresh.Certificate) || len(authorities.Pool().Certificates) != 2 {
			t.Error("not taken up")
		}
		leases.Release()
	})
}

// Whatever is saved while clients come, each gets one pair or the other.
func TestReloadUnderHandshakes(t *testing.T) {
	b := newBed(t)
	defer b.end()
	b.write("ca.pem", b.ca.CertPEM())
	client := b.ca.Issue("client")
	m := func(version uint16, files ...model.CertificateFile) *model.ListenerTLS {
		m := settings(files...)
		m.MinVersion, m.ClientAuth = version, model.ClientAuth{Mode: model.ClientAuthRequire, CA: b.path("ca.pem")}
		return m
	}
	other := b.save("other", b.ca.Issue("other.test"))
	b.save("one", b.ca.Issue("one.test"))
	b.serve(m(tls.VersionTLS12, b.file("one")))

	var wg sync.WaitGroup
	var stop atomic.Bool
	var done atomic.Int64
	latest := &atomic.Pointer[string]{}
	for range 50 {
		wg.Go(func() {
			config := b.client("one.test", shows(client), func(c *tls.Config) { c.ClientSessionCache = tls.NewLRUClientSessionCache(1) })
			for i := 0; !stop.Load(); i++ {
				if i%2 == 0 { // a full handshake, then one that resumes
					config.ClientSessionCache.Put("one.test", nil)
				}
				o := b.shake(config)
				if o.err != nil {
					t.Errorf("failed: %v", o.err)
					return
				}
				if serial := o.serial(); !o.client.DidResume {
					latest.Store(&serial)
				}
				done.Add(1)
			}
		})
	}
	until := func(what string, condition func() bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); !condition(); {
			if time.Now().After(deadline) {
				t.Errorf("%s: not within %v\n%s", what, patience, b.logged)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	saves := []func(pair *certtest.Certificate){
		func(pair *certtest.Certificate) { b.save("one", pair) },
		func(pair *certtest.Certificate) {
			b.save("tmp", pair)
			b.must(os.Rename(b.path("tmp.key"), b.path("one.key")))
			b.must(os.Rename(b.path("tmp.pem"), b.path("one.pem")))
		},
		func(pair *certtest.Certificate) {
			b.must(os.Remove(b.path("one.pem")))
			b.must(os.Remove(b.path("one.key")))
			b.save("one", pair)
		},
		func(pair *certtest.Certificate) {
			b.save("v2", pair)
			b.relink("v2.pem", "one.pem")
			b.relink("v2.key", "one.key")
		},
	}
	for i, save := range saves {
		pair := b.ca.Issue("one.test")
		save(pair)
		b.write("ca.pem", append([]byte(strings.Repeat("\n", i)), b.ca.CertPEM()...))
		b.serve(m([]uint16{tls.VersionTLS12, tls.VersionTLS13}[i%2], []model.CertificateFile{b.file("one"), other}[:1+i%2]...)) // reloads as well
		want := pair.SerialNumber.String()
		until(fmt.Sprintf("way %d", i), func() bool { serial := latest.Load(); return serial != nil && *serial == want })
	}
	before := done.Load()
	until("some more", func() bool { return done.Load() > before+100 })
	stop.Store(true)
	wg.Wait()
}
