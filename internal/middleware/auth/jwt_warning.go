package auth

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"sluice/internal/model"
)

// warn reports keys that come over a network as nobody vouches for them.
func (j *jwt) warn(report model.Report) {
	for i := range j.Issuers {
		if remote := j.Issuers[i].Remote; remote != nil && InClear(remote.URL) {
			report(fmt.Sprintf("issuers[%d].jwks_url", i), "the keys of the issuer come in clear: whoever is in between can put in others, and write tokens", "use https")
		}
	}
}

// InClear tells whether what is asked of a URL goes over a network without TLS.
func InClear(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	address, err := netip.ParseAddr(host)
	return host != "localhost" && (err != nil || !address.Unmap().IsLoopback())
}
