package pipeline

import (
	"strings"

	"sluice/internal/message"
)

// dropNamed drops the fields that Connection names (RFC 9110 7.6.1), before
// middleware adds fields: else a client could have what middleware sets, as who
// was authenticated, dropped on the way to the endpoint. In Connection stay the
// options that the engine and the destination act on.
func dropNamed(fields *message.Fields) {
	var kept, named []string
	for option := range fields.List(message.Connection) {
		if actedOn(option) {
			kept = append(kept, option)
		} else {
			named = append(named, option)
		}
	}
	if named == nil {
		return
	}
	fields.DeleteFunc(func(field message.Field) bool {
		for _, name := range named {
			if strings.EqualFold(field.Name, name) {
				return true
			}
		}
		return false
	})
	if kept == nil {
		fields.Delete(message.Connection.String())
		return
	}
	fields.Put(message.Connection, strings.Join(kept, ", "))
}

func actedOn(option string) bool {
	switch message.Lookup(option) {
	case message.Connection, message.KeepAlive, message.ProxyConnection, message.TE, message.Trailer, message.TransferEncoding, message.Upgrade:
		return true
	}
	return strings.EqualFold(option, "close") || strings.EqualFold(option, "HTTP2-Settings")
}
