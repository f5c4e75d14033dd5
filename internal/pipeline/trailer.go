package pipeline

import (
	"slices"
	"strings"

	"sluice/internal/message"
)

// mayTrail tells whether a field may stand behind the content. Nothing may that
// the gateway sets or drops, since it has looked at the head alone by then, nor
// what has to be known before the content: framing, routing, authentication,
// modifiers of the request, control of the response, the format of the content
// (RFC 9110 6.5.1). What some endpoints would read as such a name counts as it.
func mayTrail(name string) bool {
	name = strings.ReplaceAll(name, "_", "-")
	if GatewaySets(name) {
		return false
	}
	switch message.Lookup(name) {
	case message.AcceptEncoding, message.AccessControlRequestMethod, message.Allow, message.Authorization, message.CacheControl, message.Connection,
		message.ContentEncoding, message.ContentLength, message.ContentType, message.Cookie, message.Date, message.Expect, message.GRPCTimeout, message.Host,
		message.IdempotencyKey, message.KeepAlive, message.Location, message.Origin, message.ProxyAuthenticate, message.ProxyAuthorization,
		message.ProxyConnection, message.RetryAfter, message.SetCookie, message.TE, message.Traceparent, message.Tracestate, message.Trailer,
		message.TransferEncoding, message.Upgrade, message.UserAgent, message.Vary, message.WWWAuthenticate, message.XBackendVersion, message.XResponseTime:
		return false
	}
	switch strings.ToLower(name) {
	case "age", "content-language", "content-location", "content-range", "expires", "http2-settings", "max-forwards", "pragma",
		"proxy-authentication-info", "range", "realm", "referer", "warning":
		return false
	}
	return len(name) < len("If-") || !strings.EqualFold(name[:len("If-")], "If-")
}

// Trailers returns what of a message's trailer fields may go on. What the head
// bears may not: there it may be middleware's, and is the last word. trailer may
// be nil.
func Trailers(trailer func() message.Fields, head message.Fields) func() message.Fields {
	if trailer == nil {
		return nil
	}
	return func() message.Fields {
		var fields message.Fields
		for _, field := range trailer() {
			if _, borne := head.Find(field.Name); !borne && mayTrail(field.Name) {
				fields = append(fields, field)
			}
		}
		return fields
	}
}

// AnnounceTrailers leaves in Trailer what may go on as such.
func AnnounceTrailers(fields *message.Fields) {
	if !fields.Has(message.Trailer) {
		return
	}
	names := slices.DeleteFunc(slices.Collect(fields.List(message.Trailer)), func(name string) bool { return !mayTrail(name) })
	if len(names) == 0 {
		fields.Delete(message.Trailer.String())
		return
	}
	fields.Put(message.Trailer, strings.Join(names, ", "))
}
