package upstream

import (
	"strconv"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// kept is the endpoint that a client's sticky cookie names; nil: none of the field.
func (g *Group) kept(x *pipeline.Exchange, f *field) *Endpoint {
	token, there := x.Request.Fields.Cookie(g.Balancer.Cookie)
	if !there {
		return nil
	}
	for _, e := range f.endpoints {
		if e.token == token {
			return e
		}
	}
	return nil
}

// Mark puts the sticky cookie into a response, where the client does not have it
// (RFC 6265 4.1). It is a digest of the endpoint's name, so that all instances of a
// gateway agree on it.
func (t *Turn) Mark(x *pipeline.Exchange, response *message.Response) {
	b := &t.group.Balancer
	if b.Policy != model.StickyCookie {
		return
	}
	if token, there := x.Request.Fields.Cookie(b.Cookie); there && token == t.Endpoint.token {
		return
	}
	value := b.Cookie + "=" + t.Endpoint.token + "; Path=/; HttpOnly; SameSite=Lax"
	if b.TTL > 0 {
		value += "; Max-Age=" + strconv.Itoa(int((b.TTL+time.Second-1)/time.Second))
	}
	if x.Listener.TLS != nil {
		value += "; Secure"
	}
	response.Fields.Add(message.SetCookie.String(), value)
}
