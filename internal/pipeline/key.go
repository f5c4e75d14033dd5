package pipeline

import (
	"sluice/internal/message"
	"sluice/internal/model"
)

// KeyOf returns what identifies an exchange by a key, and whether it has that.
// An empty value is none: it would make one of all who have it.
func KeyOf(x *Exchange, key *model.Key) (value string, there bool) {
	switch key.Source {
	case model.KeyHeader:
		value, _ = x.Request.Fields.Find(key.Name)
	case model.KeyCookie:
		value, _ = x.Request.Fields.Cookie(key.Name)
	case model.KeyQuery:
		value, _ = message.Parameter(x.Request.Query, key.Name)
		value = message.DecodeParameter(value)
	case model.KeyClaim:
		value = x.claim(key.Name)
	case model.KeyGlobal:
	case model.KeyRoute:
		value = x.Route.ID
	case model.KeyUpstream:
		value = destinationName(x.Route)
	case model.KeyConsumer:
		value = x.Consumer
	case model.KeyClientIP:
		value = x.networkText(key.IPv6Prefix)
	default:
		panic("BUG: no key is taken from " + string(key.Source))
	}
	return value, value != ""
}

// networkText is the client's address as text or, of one of IPv6, the network that its
// first bits are; 0 is all of them. Empty where there is none.
func (x *Exchange) networkText(bits int) string {
	if bits == 0 || !x.ClientIP.Is6() {
		return x.ClientText()
	}
	network, err := x.ClientIP.Prefix(bits)
	if err != nil {
		panic("BUG: a key has a prefix that is none: " + err.Error())
	}
	return network.String()
}

// destinationName is the upstream that a route leads to, or what stands for all of
// its split; empty where it answers by itself.
func destinationName(route *model.Route) string {
	switch {
	case route.Upstream != nil:
		return route.Upstream.Name
	case route.Split != nil:
		return "split of " + route.ID
	}
	return ""
}
