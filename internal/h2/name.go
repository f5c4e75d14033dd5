package h2

import (
	"net/http"
	"strings"
)

// usual are names that come often, as net/http writes them.
var usual = []string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Accept-Ranges", "Access-Control-Allow-Credentials",
	"Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
	"Access-Control-Max-Age", "Access-Control-Request-Headers", "Access-Control-Request-Method", "Age", "Allow", "Alt-Svc", "Authorization",
	"Baggage", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Location",
	"Content-Range", "Content-Security-Policy", "Content-Type", "Cookie", "Date", "Dnt", "Etag", "Expect", "Expires", "Forwarded", "From",
	"Grpc-Accept-Encoding", "Grpc-Encoding", "Grpc-Message", "Grpc-Status", "Grpc-Status-Details-Bin", "Grpc-Timeout", "Host",
	"Idempotency-Key", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Last-Event-Id", "Last-Modified",
	"Link", "Location", "Max-Forwards", "Origin", "Pragma", "Priority", "Proxy-Authenticate", "Proxy-Authorization", "Range", "Referer",
	"Referrer-Policy", "Retry-After", "Sec-Ch-Ua", "Sec-Ch-Ua-Mobile", "Sec-Ch-Ua-Platform", "Sec-Fetch-Dest", "Sec-Fetch-Mode",
	"Sec-Fetch-Site", "Sec-Fetch-User", "Sec-Websocket-Extensions", "Sec-Websocket-Key", "Sec-Websocket-Protocol", "Sec-Websocket-Version",
	"Server", "Server-Timing", "Set-Cookie", "Strict-Transport-Security", "Te", "Traceparent", "Tracestate", "Trailer",
	"Upgrade-Insecure-Requests", "User-Agent", "Vary", "Via", "Www-Authenticate", "X-Content-Type-Options", "X-Forwarded-For",
	"X-Forwarded-Host", "X-Forwarded-Proto", "X-Frame-Options", "X-Real-Ip", "X-Request-Id",
}

// Both forms of the usual names by the other one.
var (
	usualCanonical = byLower(usual)
	usualLower     = byCanonical(usual)
)

func byLower(names []string) map[string]string {
	table := make(map[string]string, len(names))
	for _, name := range names {
		table[strings.ToLower(name)] = name
	}
	return table
}

func byCanonical(names []string) map[string]string {
	table := make(map[string]string, len(names))
	for _, name := range names {
		table[name] = strings.ToLower(name)
	}
	return table
}

// maxNames bounds what a connection remembers of other names.
const maxNames = 64

// canonical is a name as net/http writes it. It is the reader's.
func (c *Conn) canonical(name string) string {
	if known, ok := usualCanonical[name]; ok {
		return known
	}
	if known, ok := c.names[name]; ok {
		return known
	}
	known := http.CanonicalHeaderKey(name)
	if len(c.names) < maxNames && len(name) <= 64 {
		c.names[name] = known
	}
	return known
}

// lowered is a name as it goes out (RFC 9113 8.2).
func lowered(name string) string {
	if known, ok := usualLower[name]; ok {
		return known
	}
	return strings.ToLower(name)
}
