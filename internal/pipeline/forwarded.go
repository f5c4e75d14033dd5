package pipeline

import (
	"net/netip"
	"slices"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/model"
)

// GatewaySets tells whether a name is that of a field which the gateway sets on
// requests. One that differs from it only by underscores would be read as it by
// CGI-like endpoints.
func GatewaySets(name string) bool {
	switch message.Lookup(name) {
	case message.Forwarded, message.XRealIP, message.XRequestID, message.Via:
		return true
	}
	return len(name) > len("X-Forwarded-") && strings.EqualFold(name[:len("X-Forwarded-")], "X-Forwarded-")
}

// GatewayTells tells whether the gateway says something itself in requests under a name, so
// that no middleware may. Of the others that GatewaySets tells of, as X-Forwarded-User,
// strangers may say nothing either, and middleware may.
func GatewayTells(name string) bool {
	switch message.Lookup(name) {
	case message.Forwarded, message.XRealIP, message.XRequestID, message.Via,
		message.XForwardedFor, message.XForwardedProto, message.XForwardedHost, message.XForwardedClientCert:
		return true
	}
	return false
}

// lookAlike tells whether a name is that of a field which the gateway sets, the
// framing's among them, but for underscores.
func lookAlike(field message.Field) bool {
	if !strings.Contains(field.Name, "_") {
		return false
	}
	name := strings.ReplaceAll(field.Name, "_", "-")
	switch message.Lookup(name) {
	case message.ContentLength, message.TransferEncoding:
		return true
	}
	return GatewaySets(name)
}

// forwardedByOthers tells what an untrusted peer may not say: anything about
// the way that the request came.
func forwardedByOthers(field message.Field) bool {
	if field.ID == message.XRequestID || field.ID == message.Via {
		return false // made anew, and a list that proxies append to
	}
	return GatewaySets(field.Name) || lookAlike(field)
}

// tidyForwarded leaves one scheme and one host of those that a trusted proxy
// sent, the first that can be one; without one the gateway sets its own.
func tidyForwarded(fields *message.Fields) {
	proto, host := false, false
	fields.DeleteFunc(func(field message.Field) bool {
		switch field.ID {
		case message.XForwardedProto:
			drop := proto || !validProto(field.Value)
			proto = proto || !drop
			return drop
		case message.XForwardedHost:
			drop := host || !canonical.ValidAuthority(field.Value)
			host = host || !drop
			return drop
		}
		return false
	})
}

func validProto(scheme string) bool {
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// adoptForwarded sets what only Forwarded (RFC 7239) told as X-Forwarded-For,
// -Proto and -Host. The addresses are those that the walk for the client's may
// pass; scheme and host come from the first of the trusted proxies that noted
// them, which is the nearest to the client.
func adoptForwarded(x *Exchange) {
	fields := &x.Request.Fields
	if !fields.Has(message.Forwarded) {
		return
	}
	elements := forwardedElements(*fields)
	if !fields.Has(message.XForwardedFor) {
		var addresses []string
		for i := len(elements) - 1; i >= 0; i-- {
			address, ok := parseNode(parameter(elements[i], "for"))
			if !ok {
				break
			}
			addresses = append(addresses, address.String())
		}
		if slices.Reverse(addresses); addresses != nil {
			fields.Put(message.XForwardedFor, strings.Join(addresses, ", "))
		}
	}
	for _, element := range elements[outermost(x.Listener, elements):] {
		if proto := parameter(element, "proto"); !fields.Has(message.XForwardedProto) && validProto(proto) {
			fields.Put(message.XForwardedProto, strings.ToLower(proto))
		}
		if host := parameter(element, "host"); !fields.Has(message.XForwardedHost) && canonical.ValidAuthority(host) {
			fields.Put(message.XForwardedHost, host)
		}
	}
}

// outermost is the index of the element that the trusted proxy nearest to the
// client added: the last one is the peer's, and one before an element is its
// for= proxy's.
func outermost(listener *model.Listener, elements []string) int {
	at := len(elements) - 1
	for ; at > 0; at-- {
		if address, ok := parseNode(parameter(elements[at], "for")); !ok || !listener.Trusts(address) {
			break
		}
	}
	return at
}

// forwardedAddresses are the addresses that proxies before us noted, left to
// right: those of X-Forwarded-For, or without it the for= of Forwarded.
func forwardedAddresses(fields message.Fields) (entries []string) {
	for i := range fields {
		if fields[i].ID == message.XForwardedFor {
			for entry := range strings.SplitSeq(fields[i].Value, ",") {
				entries = append(entries, strings.Trim(entry, " \t"))
			}
		}
	}
	if entries != nil {
		return entries
	}
	for _, element := range forwardedElements(fields) {
		entries = append(entries, parameter(element, "for"))
	}
	return entries
}

// forwardedElements are the elements of all lines of Forwarded.
func forwardedElements(fields message.Fields) (elements []string) {
	for i := range fields {
		if fields[i].ID == message.Forwarded {
			elements = append(elements, splitQuoted(fields[i].Value, ',')...)
		}
	}
	return elements
}

// parameter returns the value of a name in one forwarded-element (RFC 7239 4),
// unquoted, or "".
func parameter(element, name string) string {
	for _, pair := range splitQuoted(element, ';') {
		key, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !strings.EqualFold(key, name) {
			continue
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = strings.ReplaceAll(value[1:len(value)-1], `\`, "")
		}
		return value
	}
	return ""
}

// splitQuoted splits at a separator outside quoted strings.
func splitQuoted(text string, separator byte) (parts []string) {
	start, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

// parseNode reads an address that may have brackets, a port and a zone.
func parseNode(text string) (netip.Addr, bool) {
	bare := text
	if len(text) >= 2 && text[0] == '[' && text[len(text)-1] == ']' {
		bare = text[1 : len(text)-1]
	}
	address, err := netip.ParseAddr(bare)
	if err != nil {
		with, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		address = with.Addr()
	}
	return address.Unmap().WithZone(""), true
}
