package pipeline

import (
	"net/netip"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/message"
)

// gatewaySets are the fields that the gateway sets on requests: a name that
// differs from one of them only by underscores would be read as it by CGI-like
// endpoints.
func gatewaySets(name string) bool {
	switch message.Lookup(name) {
	case message.Forwarded, message.XRealIP, message.XRequestID, message.Via:
		return true
	}
	return len(name) > len("X-Forwarded-") && strings.EqualFold(name[:len("X-Forwarded-")], "X-Forwarded-")
}

func lookAlike(field message.Field) bool {
	return strings.Contains(field.Name, "_") && gatewaySets(strings.ReplaceAll(field.Name, "_", "-"))
}

// forwardedByOthers tells what an untrusted peer may not say: anything about
// the way that the request came.
func forwardedByOthers(field message.Field) bool {
	if field.ID == message.XRequestID || field.ID == message.Via {
		return false // made anew, and a list that proxies append to
	}
	return gatewaySets(field.Name) || lookAlike(field)
}

// dropInvalidForwarded drops a scheme and a host that a trusted proxy sent but
// that cannot be one; the gateway then sets its own.
func dropInvalidForwarded(fields *message.Fields) {
	fields.DeleteFunc(func(field message.Field) bool {
		switch field.ID {
		case message.XForwardedProto:
			return !strings.EqualFold(field.Value, "http") && !strings.EqualFold(field.Value, "https")
		case message.XForwardedHost:
			return !canonical.ValidAuthority(field.Value)
		}
		return false
	})
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
	for i := range fields {
		if fields[i].ID == message.Forwarded {
			for _, element := range splitQuoted(fields[i].Value, ',') {
				entries = append(entries, forNode(element))
			}
		}
	}
	return entries
}

// forNode returns the for= of one forwarded-element (RFC 7239 4), unquoted.
func forNode(element string) string {
	for _, pair := range splitQuoted(element, ';') {
		key, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !strings.EqualFold(key, "for") {
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
