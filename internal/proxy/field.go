package proxy

import (
	"strings"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// fields appends the client's fields, without those that end here, with those
// that tell where the request came from.
func (d *destination) fields(x *pipeline.Exchange, fields message.Fields) message.Fields {
	fields = append(fields, x.Request.Fields...)
	hops := x.Request.Fields.Has(message.Connection)
	upgrade, trailers := "", false
	if hops {
		upgrade = upgradeFor(x.Request)
	}
	if x.Request.Fields.Has(message.TE) {
		trailers = x.Request.Fields.HasToken(message.TE, "trailers")
	}
	dropHops(&fields)
	pipeline.AnnounceTrailers(&fields)
	if x.Request.Protocol == message.HTTP10 {
		fields.Delete(message.Expect.String()) // it has no meaning there (RFC 9110 10.1.1)
	}
	if fields.Has(message.XSluiceAttempts) { // it is a question to the gateway
		fields.Delete(message.XSluiceAttempts.String())
	}
	if upgrade != "" || trailers {
		fields = reconnected(fields, upgrade, trailers)
	}
	if peer := x.PeerText(); peer != "" {
		appendTo(&fields, message.XForwardedFor, peer)
	}
	if client := x.ClientText(); client != "" {
		put(&fields, message.XRealIP, client)
	}
	if !fields.Has(message.XForwardedProto) && x.Request.Scheme != "" {
		put(&fields, message.XForwardedProto, x.Request.Scheme)
	}
	if !fields.Has(message.XForwardedHost) && x.Request.Host != "" {
		put(&fields, message.XForwardedHost, x.Request.Host)
	}
	if c := x.ClientCertificate; c != nil && x.Listener.TLS != nil && x.Listener.TLS.ClientAuth.Forward { // a reload may have taken TLS away
		appendTo(&fields, message.XForwardedClientCert, c.Forwarded)
	}
	if x.ID != "" {
		put(&fields, message.XRequestID, x.ID) // whatever Connection named
	}
	appendTo(&fields, message.Via, d.viaOf(x.Request.Protocol))
	return fields
}

// reconnected adds the fields that ask for another protocol and for trailers.
func reconnected(fields message.Fields, upgrade string, trailers bool) message.Fields {
	var connection []string
	if upgrade != "" {
		fields.Put(message.Upgrade, upgrade)
		connection = append(connection, "Upgrade")
	}
	if trailers {
		fields.Put(message.TE, "trailers")
		connection = append(connection, "TE") // RFC 9110 10.1.4
	}
	fields.Put(message.Connection, strings.Join(connection, ", "))
	return fields
}

// put is Put, without comparing names where the field is not there.
func put(fields *message.Fields, id message.Name, value string) {
	if fields.Has(id) {
		fields.Put(id, value)
		return
	}
	*fields = append(*fields, message.Field{Name: id.String(), Value: value, ID: id})
}

// appendTo appends a member to a list field, and makes one line of it.
func appendTo(fields *message.Fields, id message.Name, member string) {
	if !fields.Has(id) {
		*fields = append(*fields, message.Field{Name: id.String(), Value: member, ID: id})
		return
	}
	var members []string
	for value := range fields.Values(id.String()) {
		if value != "" {
			members = append(members, value)
		}
	}
	fields.Put(id, strings.Join(append(members, member), ", "))
}

// viaOf is the member of Via for a message of a protocol (RFC 9110 7.6.3).
func (d *destination) viaOf(protocol message.Protocol) string {
	if via, ok := d.via[protocol]; ok {
		return via
	}
	return d.via[message.HTTP11]
}
