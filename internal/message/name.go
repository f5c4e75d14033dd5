package message

import "strings"

// Name is a well-known field name as a small integer, so that code on the hot
// path compares integers, not strings. Other stands for every other name.
type Name uint8

// The field names that Sluice itself looks at.
const (
	Other Name = iota
	AcceptEncoding
	AccessControlRequestMethod
	Allow
	AltSvc
	Authorization
	CacheControl
	Connection
	ContentEncoding
	ContentLength
	ContentType
	Cookie
	Date
	Expect
	Forwarded
	GRPCTimeout
	Host
	IdempotencyKey
	KeepAlive
	Location
	Origin
	ProxyAuthenticate
	ProxyAuthorization
	ProxyConnection
	RetryAfter
	Server
	SetCookie
	TE
	Traceparent
	Tracestate
	Trailer
	TransferEncoding
	Upgrade
	UserAgent
	Vary
	Via
	WWWAuthenticate
	XBackendVersion
	XForwardedClientCert
	XForwardedFor
	XForwardedHost
	XForwardedProto
	XRealIP
	XRequestID
	XResponseTime
	XSluiceAttempts
	nameCount
)

var spelling = [nameCount]string{
	AcceptEncoding:             "Accept-Encoding",
	AccessControlRequestMethod: "Access-Control-Request-Method",
	Allow:                      "Allow",
	AltSvc:                     "Alt-Svc",
	Authorization:              "Authorization",
	CacheControl:               "Cache-Control",
	Connection:                 "Connection",
	ContentEncoding:            "Content-Encoding",
	ContentLength:              "Content-Length",
	ContentType:                "Content-Type",
	Cookie:                     "Cookie",
	Date:                       "Date",
	Expect:                     "Expect",
	Forwarded:                  "Forwarded",
	GRPCTimeout:                "Grpc-Timeout",
	Host:                       "Host",
	IdempotencyKey:             "Idempotency-Key",
	KeepAlive:                  "Keep-Alive",
	Location:                   "Location",
	Origin:                     "Origin",
	ProxyAuthenticate:          "Proxy-Authenticate",
	ProxyAuthorization:         "Proxy-Authorization",
	ProxyConnection:            "Proxy-Connection",
	RetryAfter:                 "Retry-After",
	Server:                     "Server",
	SetCookie:                  "Set-Cookie",
	TE:                         "TE",
	Traceparent:                "Traceparent",
	Tracestate:                 "Tracestate",
	Trailer:                    "Trailer",
	TransferEncoding:           "Transfer-Encoding",
	Upgrade:                    "Upgrade",
	UserAgent:                  "User-Agent",
	Vary:                       "Vary",
	Via:                        "Via",
	WWWAuthenticate:            "WWW-Authenticate",
	XBackendVersion:            "X-Backend-Version",
	XForwardedClientCert:       "X-Forwarded-Client-Cert",
	XForwardedFor:              "X-Forwarded-For",
	XForwardedHost:             "X-Forwarded-Host",
	XForwardedProto:            "X-Forwarded-Proto",
	XRealIP:                    "X-Real-IP",
	XRequestID:                 "X-Request-ID",
	XResponseTime:              "X-Response-Time",
	XSluiceAttempts:            "X-Sluice-Attempts",
}

// slots is the size of the table of names: a power of two, well above nameCount.
const slots = 256

// table holds the names at their hashes, or behind them where taken: a look-up
// compares one name, seldom two, and allocates nothing.
var table = func() (t [slots]Name) {
	for n := Other + 1; n < nameCount; n++ {
		at := hash(spelling[n])
		for t[at] != Other {
			at = (at + 1) % slots
		}
		t[at] = n
	}
	return t
}()

// lowered are the spellings in lower case, which many clients send: a look-up
// then has no letters to fold.
var lowered = func() (names [nameCount]string) {
	for n, name := range spelling {
		names[n] = strings.ToLower(name)
	}
	return names
}()

// longest is the length of the longest name.
var longest = func() (most int) {
	for _, name := range spelling {
		most = max(most, len(name))
	}
	return most
}()

// hash is of the length and three letters; it ignores case. The factors spread
// the present names without a collision.
func hash(name string) uint {
	length := uint(len(name))
	first, middle, last := uint(name[0]|0x20), uint(name[length/2]|0x20), uint(name[length-1]|0x20)
	return (length*75 + first*238 + middle*6 + last*107) % slots
}

// Lookup returns the Name of a field name, ignoring case, or Other.
func Lookup(name string) Name {
	if name == "" || len(name) > longest {
		return Other
	}
	for at := hash(name); ; at = (at + 1) % slots {
		n := table[at]
		if n == Other || spelling[n] == name || lowered[n] == name || equalFold(spelling[n], name) {
			return n
		}
	}
}

// equalFold is strings.EqualFold for a known name, which is ASCII.
func equalFold(known, name string) bool {
	if len(known) != len(name) {
		return false
	}
	for i := range len(known) {
		if a, b := known[i], name[i]; a != b && (a^b != 0x20 || a|0x20 < 'a' || a|0x20 > 'z') {
			return false
		}
	}
	return true
}

// String returns the usual spelling, empty for Other.
func (n Name) String() string { return spelling[n] }

// OfEngine tells whether a field belongs to the connection or to the framing of
// one message (RFC 9110 7.6.1, RFC 9112 6). Who writes the message sets it; an
// edit of it would be undone or would make the message lie.
func (n Name) OfEngine() bool {
	switch n {
	case Connection, ContentLength, KeepAlive, ProxyConnection, TE, Trailer, TransferEncoding, Upgrade:
		return true
	}
	return false
}
