package pemfile

import (
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// soon is how long before its end a certificate is warned of.
const soon = 7 * 24 * time.Hour

// shortest is how many bits a key of RSA needs to be accepted by clients
// (CA/Browser Forum, Baseline Requirements 6.1.5).
const shortest = 2048

// CheckPair returns what is wrong with a certificate and its key: one fault if
// they cannot be used, else warnings.
func CheckPair(cert, key []byte, now time.Time) []Fault {
	pair, fault := Pair(cert, key)
	if fault != nil {
		return []Fault{*fault}
	}
	return pairFaults(pair.Leaf, now)
}

// CheckServer is CheckPair for what a server shows.
func CheckServer(cert, key []byte, now time.Time) []Fault {
	pair, fault := Pair(cert, key)
	if fault != nil {
		return []Fault{*fault}
	}
	faults := pairFaults(pair.Leaf, now)
	if len(pair.Leaf.DNSNames)+len(pair.Leaf.IPAddresses) == 0 {
		faults = append(faults, Fault{In: Cert, Message: "the certificate is for no host: it has no DNS name among its subjectAltNames", Hint: "clients refuse it; the common name does not count", Warning: true})
	}
	usages := pair.Leaf.ExtKeyUsage
	if len(usages)+len(pair.Leaf.UnknownExtKeyUsage) > 0 && !slices.Contains(usages, x509.ExtKeyUsageServerAuth) && !slices.Contains(usages, x509.ExtKeyUsageAny) {
		faults = append(faults, Fault{In: Cert, Message: "the certificate is not for servers: its extended key usage lacks serverAuth", Hint: "clients refuse it", Warning: true})
	}
	return faults
}

// pairFaults warns of what is wrong with a certificate whoever shows it.
func pairFaults(c *x509.Certificate, now time.Time) []Fault {
	faults := lifetime(c, Cert, now)
	if public, ok := c.PublicKey.(*rsa.PublicKey); ok && public.N.BitLen() < shortest {
		faults = append(faults, Fault{In: Key, Message: fmt.Sprintf("the key is RSA of %d bits, which is too short", public.N.BitLen()), Hint: fmt.Sprintf("the other side refuses it: take ECDSA, or RSA of %d bits", shortest), Warning: true})
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
	if !slices.ContainsFunc(pool.Certificates, vouches) {
		faults = append(faults, Fault{In: CA, Message: "the file has no certificate of an authority: nobody is believed but who shows one of its own", Hint: "name the file of the authority that issued them", Warning: true})
	}
	return faults
}

// vouches tells whether a certificate may have issued others (RFC 5280 4.2.1.9;
// before version 3 none could say that it must not).
func vouches(c *x509.Certificate) bool {
	return c.Version < 3 || c.BasicConstraintsValid && c.IsCA
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
