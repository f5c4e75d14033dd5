package proxy

import (
	"strings"

	"sluice/internal/message"
)

// statusUpgradeRequired is the status whose Upgrade tells a client what to ask
// for (RFC 9110 15.5.22).
const statusUpgradeRequired = 426

// dropHops drops the fields that concern one connection alone (RFC 9110 7.6.1),
// those that Connection names with them. Trailer stays: it is about the message.
func dropHops(fields *message.Fields) {
	var named []string
	for i := range *fields {
		if field := &(*fields)[i]; field.ID == message.Connection {
			named = appendNamed(named, field.Value)
		}
	}
	kept := (*fields)[:0] // in place, and without a function, which would be allocated
	for i := range *fields {
		if field := &(*fields)[i]; !isHop(field) && !isNamed(field, named) {
			kept = append(kept, *field)
		}
	}
	*fields = kept
}

func isHop(field *message.Field) bool {
	switch field.ID {
	case message.Connection, message.KeepAlive, message.ProxyConnection, message.TE, message.TransferEncoding, message.Upgrade,
		message.ProxyAuthenticate, message.ProxyAuthorization:
		return true
	case message.Other:
		return message.SameName(field.Name, "HTTP2-Settings") || message.SameName(field.Name, "Proxy-Authentication-Info")
	}
	return false
}

func isNamed(field *message.Field, names []string) bool {
	for _, name := range names {
		if message.SameName(field.Name, name) {
			return true
		}
	}
	return false
}

// appendNamed appends the names of fields in a value of Connection, but for
// those that are dropped or kept anyway.
func appendNamed(names []string, value string) []string {
	for name := range strings.SplitSeq(value, ",") {
		name = strings.Trim(name, " \t")
		switch message.Lookup(name) {
		case message.Connection, message.KeepAlive, message.ProxyConnection, message.TE, message.Trailer, message.TransferEncoding, message.Upgrade:
			continue
		}
		if name != "" && !strings.EqualFold(name, "close") {
			names = append(names, name)
		}
	}
	return names
}

// upgradeFor is the list of protocols that a request asks to change to, or "".
// HTTP/1.0 has no such thing (RFC 9110 7.8); what asks for it in HTTP/2 has been
// made a request like that of HTTP/1.1.
func upgradeFor(request *message.Request) string {
	if request.Protocol == message.HTTP10 {
		return ""
	}
	return upgradeOf(request.Fields)
}

// upgradeOf is the list of protocols in Upgrade where Connection names it, too.
// h2c is never among them.
func upgradeOf(fields message.Fields) string {
	if !fields.HasToken(message.Connection, "upgrade") {
		return ""
	}
	var protocols []string
	for protocol := range fields.List(message.Upgrade) {
		if !strings.EqualFold(protocol, "h2c") {
			protocols = append(protocols, protocol)
		}
	}
	return strings.Join(protocols, ", ")
}

// asked tells whether a protocol, or each of several layered ones, is among
// those of a list.
func asked(list, offered string) bool {
	if offered == "" {
		return false
	}
	for protocol := range strings.SplitSeq(offered, ", ") {
		found := false
		for one := range strings.SplitSeq(list, ", ") {
			found = found || strings.EqualFold(one, protocol)
		}
		if !found {
			return false
		}
	}
	return true
}
