package auth

import (
	"fmt"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/model"
)

// warn reports keys that come over a network as nobody vouches for them, and such as are
// of no use.
func (j *jwt) warn(report model.Report) {
	for i := range j.Issuers {
		issuer := &j.Issuers[i]
		if len(issuer.unused) > 0 {
			report(fmt.Sprintf("issuers[%d].jwks_file", i), "jwks_file has keys that are left out: "+strings.Join(issuer.unused, "; "), "tokens that they sign are refused: mend them, or take them out")
		}
		if remote := issuer.Remote; remote != nil && canonical.InClear(remote.URL) {
			report(fmt.Sprintf("issuers[%d].jwks_url", i), "the keys of the issuer come in clear: whoever is in between can put in others, and write tokens", "use https")
		}
	}
}
