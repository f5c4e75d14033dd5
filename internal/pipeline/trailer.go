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
// bears may not, nor what is alike: there it may be middleware's, and is the last
// word. trailer may be nil.
func Trailers(trailer func() message.Fields, head message.Fields) func() message.Fields {
	if trailer == nil { // as most have none, for which nothing is to be allocated
		return nil
	}
	return trailersBut(trailer, func(name string) bool {
		return !mayTrail(name) || slices.ContainsFunc(head, func(field message.Field) bool { return message.Alike(field.Name, name) })
	})
}

// trailersBut returns trailer fields without those whose names are to be dropped.
func trailersBut(trailer func() message.Fields, drop func(name string) bool) func() message.Fields {
	return func() message.Fields {
		var fields message.Fields
		for _, field := range trailer() {
			if !drop(field.Name) {
				fields = append(fields, field)
			}
		}
		return fields
	}
}

// DropRequestField drops what the client says under a name, or under one that is
// alike (see message.Alike), from the request's head and from its trailers, which come
// later. Who keeps a field from going on calls it, and who sets one that must be the
// gateway's word.
func (x *Exchange) DropRequestField(name string) {
	x.Request.Fields.DeleteAlike(name)
	x.dropRequestTrailer(name)
}

// SetRequestField gives a field of the request one value, as Fields.Set does, and drops
// what is alike, as DropRequestField does.
func (x *Exchange) SetRequestField(name, value string) {
	r := x.Request
	r.Fields.DeleteFunc(func(field message.Field) bool {
		return message.Alike(field.Name, name) && !strings.EqualFold(field.Name, name)
	})
	x.growRequest(1)
	r.Fields.Set(name, value)
	x.dropRequestTrailer(name)
}

func (x *Exchange) dropRequestTrailer(name string) {
	if x.Request.Trailer != nil { // most have none, and nothing is allocated for them
		x.Request.Trailer = trailersBut(x.Request.Trailer, func(came string) bool { return message.Alike(came, name) })
	}
}

// DropResponseField drops a field of the response, from its head and its trailers.
// There is one.
func (x *Exchange) DropResponseField(name string) {
	r := x.Response
	r.Fields.Delete(name)
	x.dropResponseTrailer(name)
}

// SetResponseField gives a field of the response one value, as Fields.Set does, and
// drops it from the trailers. There is a response.
func (x *Exchange) SetResponseField(name, value string) {
	x.Response.Fields.Set(name, value)
	x.dropResponseTrailer(name)
}

func (x *Exchange) dropResponseTrailer(name string) {
	if x.Response.Trailer != nil {
		x.Response.Trailer = trailersBut(x.Response.Trailer, func(came string) bool { return strings.EqualFold(came, name) })
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
