//go:build unix

package netloop

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
)

// HandshakeError says why a handshake came to nothing. It wraps what crypto/tls
// says (*tls.CertificateVerificationError, tls.RecordHeaderError, an error of a
// callback …) or what befell the connection: os.ErrDeadlineExceeded,
// io.ErrUnexpectedEOF where the peer has left, the cause of an Interrupt.
type HandshakeError struct {
	Reason HandshakeReason
	// Plain is what the peer has sent, as far as it was read, with the reason
	// HandshakeNotTLS.
	Plain []byte
	Err   error
}

// HandshakeReason is why a handshake failed, in a word.
type HandshakeReason string

// Why handshakes fail.
const (
	HandshakeTimeout       HandshakeReason = "timeout"        // the deadline passed
	HandshakeLeft          HandshakeReason = "left"           // the peer has closed, or broken, the connection
	HandshakeInterrupted   HandshakeReason = "interrupted"    // by Interrupt, Close or the executor's end
	HandshakeNotTLS        HandshakeReason = "not_tls"        // the peer does not speak TLS
	HandshakeVersion       HandshakeReason = "version"        // no version that both speak
	HandshakeCipher        HandshakeReason = "cipher"         // no cipher suite or key exchange that both have
	HandshakeProtocol      HandshakeReason = "protocol"       // no application protocol that both speak (ALPN)
	HandshakeNoCertificate HandshakeReason = "no_certificate" // the client has sent none, and must
	HandshakeCertificate   HandshakeReason = "certificate"    // that of the peer does not hold
	HandshakeRefused       HandshakeReason = "refused"        // by the peer, whose alert Err is
	HandshakeFailed        HandshakeReason = "failed"         // anything else: Err says it
)

// Error says what crypto/tls says.
func (e *HandshakeError) Error() string { return "TLS handshake: " + e.Err.Error() }

// Unwrap is what it comes from.
func (e *HandshakeError) Unwrap() error { return e.Err }

// HTTP tells whether a client has sent an HTTP request in clear.
func (e *HandshakeError) HTTP() bool {
	method, _, found := strings.Cut(string(e.Plain), " ")
	return (found || len(e.Plain) <= headerBytes) && method != "" &&
		!strings.ContainsFunc(method, func(c rune) bool { return c < 'A' || c > 'Z' })
}

// handshakeError is the error of a handshake.
func (t *TLS) handshakeError(err error) *HandshakeError {
	r := &t.records
	var header tls.RecordHeaderError
	switch {
	case r.failed != nil:
		err = r.failed
		if errors.Is(err, errTruncated) {
			err = io.ErrUnexpectedEOF
		}
		return &HandshakeError{Reason: r.reason(err), Err: err}
	case errors.As(err, &header) && header.Conn != nil: // it is of the first record
		plain := slices.Concat(header.RecordHeader[:], r.data)
		return &HandshakeError{Reason: HandshakeNotTLS, Plain: plain, Err: err}
	}
	return &HandshakeError{Reason: reasonOf(err), Err: err}
}

// reason is why reading or writing failed in a handshake.
func (r *records) reason(err error) HandshakeReason {
	switch {
	case r.dead(), errors.Is(err, ErrStopped):
		return HandshakeInterrupted
	case errors.Is(err, errDeadline):
		return HandshakeTimeout
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return HandshakeLeft
	}
	return HandshakeFailed
}

// reasonOf sorts the errors of crypto/tls, many of which have no other mark than
// their text. Tests hold it to that.
func reasonOf(err error) HandshakeReason {
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return HandshakeCertificate
	}
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" {
		return HandshakeRefused
	}
	text := err.Error()
	for _, known := range [...]struct {
		part   string
		reason HandshakeReason
	}{
		{"unsupported versions", HandshakeVersion},
		{"unsupported protocol version", HandshakeVersion},
		{"unsupported SSLv2 handshake", HandshakeVersion},
		{"no cipher suite supported", HandshakeCipher},
		{"no key exchanges supported", HandshakeCipher},
		{"unsupported application protocols", HandshakeProtocol},
		{"didn't provide a certificate", HandshakeNoCertificate},
		{"client certificate", HandshakeCertificate},
		{"certificate from server", HandshakeCertificate},
	} {
		if strings.HasPrefix(text, "tls: ") && strings.Contains(text, known.part) {
			return known.reason
		}
	}
	return HandshakeFailed
}
