package certificate

import (
	"crypto/x509"
	"testing"
	"time"

	"sluice/internal/certtest"
	"sluice/internal/model"
)

// What has expired is said to have, of authorities if one of them has.
func TestStatusOfWhatHasExpired(t *testing.T) {
	b := newBed(t)
	defer b.end()
	past := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	good, old := b.ca.Issue("one.test"), b.ca.IssueFor(certtest.NewKey(t), past, "two.test")
	b.write("ca.pem", append(good.CertPEM(), old.CertPEM()...))
	m := settings(b.save("good", good), b.save("old", old))
	m.ClientAuth = model.ClientAuth{Mode: model.ClientAuthOptional, CA: b.path("ca.pem")}
	b.serve(m)
	for i, want := range []bool{false, true, true} {
		if status := b.set.Status()[i]; status.Expired != want || status.Error != "" {
			t.Errorf("%+v, want expired %v", status, want)
		}
	}
}
