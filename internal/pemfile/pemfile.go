// Package pemfile reads certificates, keys and authorities from PEM (RFC 7468)
// and says in plain words what is wrong with them. It works on bytes: it opens
// nothing, serves nothing and knows no document.
package pemfile

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Largest is the size of the largest file that is worth reading: some hundred
// authorities take a few hundred KiB.
const Largest = 4 << 20

// Part is the file that a fault is in, by the key that names it in a document.
type Part string

// The parts of a pair, and the authorities.
const (
	Cert Part = "cert"
	Key  Part = "key"
	CA   Part = "ca"
)

// Fault is what is wrong with a file.
type Fault struct {
	In      Part
	Message string // a clause that begins with what is meant: the certificate, the key, the file
	Hint    string // how to mend; a clause or empty
	Warning bool   // it can be used all the same
}

// String is the message with how to mend it.
func (f *Fault) String() string {
	if f.Hint == "" {
		return f.Message
	}
	return f.Message + " (" + f.Hint + ")"
}

// Pair reads a certificate, followed by those that vouch for it, and its key.
// Both may be in one file, and are then given twice. The leaf is parsed.
func Pair(cert, key []byte) (*tls.Certificate, *Fault) {
	chain, fault := certificates(cert, Cert)
	if fault != nil {
		return nil, fault
	}
	signer, fault := privateKey(key)
	if fault != nil {
		return nil, fault
	}
	if fault := match(chain, signer); fault != nil {
		return nil, fault
	}
	pair := &tls.Certificate{PrivateKey: signer, Leaf: chain[0]}
	for _, c := range chain {
		pair.Certificate = append(pair.Certificate, c.Raw)
	}
	return pair, nil
}

// Pool are authorities that certificates are trusted by.
type Pool struct {
	*x509.CertPool
	Certificates []*x509.Certificate // what is in the pool, in the order of the file
	// Sum tells pools apart: equal ones hold the same certificates, in whatever
	// order.
	Sum [sha256.Size]byte
}

// Authorities reads the certificates of authorities.
func Authorities(ca []byte) (*Pool, *Fault) {
	all, fault := certificates(ca, CA)
	if fault != nil {
		return nil, fault
	}
	pool := &Pool{CertPool: x509.NewCertPool(), Certificates: all}
	sums := make([][]byte, 0, len(all))
	for _, c := range all {
		pool.AddCert(c)
		sum := sha256.Sum256(c.Raw)
		sums = append(sums, sum[:])
	}
	slices.SortFunc(sums, bytes.Compare)
	pool.Sum = sha256.Sum256(bytes.Join(slices.CompactFunc(sums, bytes.Equal), nil))
	return pool, nil
}

const beginning = "-----BEGIN "

// blocks returns the PEM blocks of a file. It is strict where encoding/pem is
// not: a block that has no end or cannot be decoded is a fault, since half of a
// chain would be taken for the whole.
func blocks(data []byte, in Part) ([]*pem.Block, *Fault) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &Fault{In: in, Message: "the file is empty"}
	}
	begun := 0
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte(beginning)) {
			begun++
		}
	}
	var found []*pem.Block
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		found = append(found, block)
	}
	if len(found) < begun {
		return nil, &Fault{In: in, Message: "the file has a PEM block that is broken or has no end", Hint: "write the file again, whole"}
	}
	return found, nil
}

// certificates returns all certificates of a file, at least one.
func certificates(data []byte, in Part) ([]*x509.Certificate, *Fault) {
	found, fault := blocks(data, in)
	if fault != nil {
		return nil, fault
	}
	var all []*x509.Certificate
	for _, block := range found {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, &Fault{In: in, Message: fmt.Sprintf("the %s certificate of the file cannot be read: %s", ordinal(len(all)), plain(err))}
		}
		all = append(all, c)
	}
	if len(all) > 0 {
		return all, nil
	}
	fault = &Fault{In: in, Message: "the file has no certificate", Hint: `PEM begins with "-----BEGIN CERTIFICATE-----"`}
	switch _, err := x509.ParseCertificate(data); {
	case err == nil:
		fault.Message, fault.Hint = "the certificate is DER, not PEM", "convert it: openssl x509 -inform DER -in FILE"
	case in == Cert && slices.ContainsFunc(found, isKey):
		fault.Message, fault.Hint = "the file has a key and no certificate", "the two files may be the wrong way round"
	}
	return nil, fault
}

func isKey(block *pem.Block) bool {
	return block.Type == "PRIVATE KEY" || strings.HasSuffix(block.Type, " PRIVATE KEY")
}

// privateKey returns the first key of a file.
func privateKey(data []byte) (crypto.Signer, *Fault) {
	found, fault := blocks(data, Key)
	if fault != nil {
		return nil, fault
	}
	at := slices.IndexFunc(found, isKey)
	if at < 0 {
		fault = &Fault{In: Key, Message: "the file has no private key", Hint: `PEM begins with "-----BEGIN PRIVATE KEY-----"`}
		if _, err := parseKey(data); err == nil {
			fault.Message, fault.Hint = "the key is DER, not PEM", "convert it: openssl pkey -inform DER -in FILE"
		} else if slices.ContainsFunc(found, func(b *pem.Block) bool { return b.Type == "CERTIFICATE" }) {
			fault.Message, fault.Hint = "the file has a certificate and no private key", "the two files may be the wrong way round"
		}
		return nil, fault
	}
	block := found[at]
	if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
		return nil, &Fault{In: Key, Message: "the key is encrypted with a passphrase", Hint: "store it without one, readable by the gateway only: openssl pkey -in FILE -out NEW"}
	}
	signer, err := parseKey(block.Bytes)
	if err != nil {
		return nil, &Fault{In: Key, Message: "the key cannot be read: " + plain(err)}
	}
	return signer, nil
}

var errKeyKind = errors.New("it is of a kind that TLS does not use; RSA, ECDSA on P-256, P-384 or P-521, and Ed25519 are")

// parseKey reads a key in PKCS #8, PKCS #1 or SEC 1.
func parseKey(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		if rsaKey, other := x509.ParsePKCS1PrivateKey(der); other == nil {
			key, err = rsaKey, nil
		} else if ecKey, other := x509.ParseECPrivateKey(der); other == nil {
			key, err = ecKey, nil
		}
	}
	if err != nil {
		return nil, err
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return k, nil
	case ed25519.PrivateKey:
		return k, nil
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P224() {
			return k, nil
		}
	}
	return nil, errKeyKind
}

// match tells whether the key is that of the first certificate.
func match(chain []*x509.Certificate, key crypto.Signer) *Fault {
	at := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return fits(c, key) })
	switch {
	case at == 0:
		return nil
	case at > 0:
		return &Fault{In: Cert, Message: fmt.Sprintf("the key is that of the %s certificate of the file", ordinal(at)), Hint: "the server's own certificate comes first, then those that vouch for it"}
	}
	return &Fault{In: Key, Message: "the key is not that of the certificate " + Title(chain[0]), Hint: "use the key that the certificate was asked for with"}
}

func fits(c *x509.Certificate, key crypto.Signer) bool {
	public, ok := c.PublicKey.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}

// Title is what people know a certificate by: its first name, else its subject.
func Title(c *x509.Certificate) string {
	switch {
	case len(c.DNSNames) > 0:
		return fmt.Sprintf("%.100q", c.DNSNames[0])
	case len(c.IPAddresses) > 0:
		return c.IPAddresses[0].String()
	case c.Subject.CommonName != "":
		return fmt.Sprintf("%.100q", c.Subject.CommonName)
	}
	return "number " + c.SerialNumber.String()
}

// ordinal is the word for an index.
func ordinal(index int) string {
	words := [...]string{"first", "second", "third", "fourth"}
	if index < len(words) {
		return words[index]
	}
	return fmt.Sprintf("%dth", index+1)
}

// plain is an error of crypto without the package's name in front.
func plain(err error) string {
	text := err.Error()
	for _, prefix := range []string{"x509: ", "tls: ", "asn1: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}
