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
	XForwardedFor
	XForwardedHost
	XForwardedProto
	XRealIP
	XRequestID
	XResponseTime
	nameCount
)

var spelling = [nameCount]string{
	AcceptEncoding:             "Accept-Encoding",
	AccessControlRequestMethod: "Access-Control-Request-Method",
	Allow:                      "Allow",
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
	XForwardedFor:              "X-Forwarded-For",
	XForwardedHost:             "X-Forwarded-Host",
	XForwardedProto:            "X-Forwarded-Proto",
	XRealIP:                    "X-Real-IP",
	XRequestID:                 "X-Request-ID",
	XResponseTime:              "X-Response-Time",
}

// byLength holds the names of each length: a look-up compares few candidates
// and allocates nothing.
var byLength = func() (index [32][]Name) {
	for n := Other + 1; n < nameCount; n++ {
		length := len(spelling[n])
		index[length] = append(index[length], n)
	}
	return index
}()

// Lookup returns the Name of a field name, ignoring case, or Other.
func Lookup(name string) Name {
	if len(name) >= len(byLength) {
		return Other
	}
	for _, n := range byLength[len(name)] {
		if strings.EqualFold(spelling[n], name) {
			return n
		}
	}
	return Other
}

// String returns the usual spelling, empty for Other.
func (n Name) String() string { return spelling[n] }
