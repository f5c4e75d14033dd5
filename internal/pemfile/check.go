package pemfile

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// soon is how long before its end a certificate is warned of.
const soon = 7 * 24 * time.Hour

// CheckPair returns what is wrong with a certificate and its key: one fault if
// they cannot be used, else warnings.
func CheckPair(cert, key []byte, now time.Time) []Fault {
	pair, fault := Pair(cert, key)
	if fault != nil {
		return []Fault{*fault}
	}
	return lifetime(pair.Leaf, Cert, now)
}

// CheckServer is CheckPair for what a server shows.
func CheckServer(cert, key []byte, now time.Time) []Fault {
	pair, fault := Pair(cert, key)
	if fault != nil {
		return []Fault{*fault}
	}
	faults := lifetime(pair.Leaf, Cert, now)
	if len(pair.Leaf.DNSNames)+len(pair.Leaf.IPAddresses) == 0 {
		faults = append(faults, Fault{In: Cert, Message: "the certificate is for no host: it has no DNS name among its subjectAltNames", Hint: "clients refuse it; the common name does not count", Warning: true})
	}
	usages := pair.Leaf.ExtKeyUsage
	if len(usages)+len(pair.Leaf.UnknownExtKeyUsage) > 0 && !slices.Contains(usages, x509.ExtKeyUsageServerAuth) && !slices.Contains(usages, x509.ExtKeyUsageAny) {
		faults = append(faults, Fault{In: Cert, Message: "the certificate is not for servers: its extended key usage lacks serverAuth", Hint: "clients refuse it", Warning: true})
	}
	return faults
}

// CheckAuthorities returns what is wrong with a file of authorities: one fault
// if it cannot be used, else warnings.
func CheckAuthorities(ca []byte, now time.Time) (faults []Fault) {
	pool, fault := Authorities(ca)
	if fault != nil {
		return []Fault{*fault}
	}
	for _, c := range pool.Certificates {
		faults = append(faults, lifetime(c, CA, now)...)
	}
	return faults
}

// lifetime warns of a certificate that is not valid now, or not for long.
func lifetime(c *x509.Certificate, in Part, now time.Time) []Fault {
	warn := func(format string, at time.Time, hint string) []Fault {
		message := fmt.Sprintf("the certificate %s "+format, Title(c), at.UTC().Format("2006-01-02 15:04 MST"))
		return []Fault{{In: in, Message: message, Hint: hint, Warning: true}}
	}
	const renew = "renew it; changed files are taken up without a reload"
	switch {
	case now.After(c.NotAfter):
		return warn("expired on %s", c.NotAfter, renew)
	case now.Before(c.NotBefore):
		return warn("is not valid before %s", c.NotBefore, "wait until then, or check the clock of this machine")
	case c.NotAfter.Sub(now) < soon:
		return warn("expires on %s, in less than 7 days", c.NotAfter, renew)
	}
	return nil
}
