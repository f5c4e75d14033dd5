package external

import (
	"net/netip"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// attributes tell of an exchange as Envoy does: the path has the query, names are in
// lower case, with the pseudo-fields among them, and bytes that are no UTF-8 are !.
func attributes(x *pipeline.Exchange, extensions []extension) *authv3.AttributeContext {
	r := x.Request
	size := int64(-1)
	switch {
	case r.Body == nil:
		size = 0
	case r.Length != message.Unknown:
		size = r.Length
	}
	context := &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: address(netip.AddrPortFrom(x.ClientIP, x.Peer.Port())), Principal: valid(identity(x.ClientCertificate))},
		Request: &authv3.AttributeContext_Request{
			Time: timestamppb.New(time.Now()),
			Http: &authv3.AttributeContext_HttpRequest{
				Id: x.ID, Method: valid(r.Method), Path: valid(r.Path + r.Query), Host: valid(r.Host), Scheme: r.Scheme, Protocol: string(r.Protocol),
				Size: size, Headers: headers(x),
			},
		},
	}
	if x.Local != nil {
		context.Destination = &authv3.AttributeContext_Peer{Address: address(x.Local())}
	}
	if len(extensions) > 0 {
		context.ContextExtensions = make(map[string]string, len(extensions))
		for _, e := range extensions {
			context.ContextExtensions[e.Name] = e.Value
		}
	}
	return context
}

// headers are the fields of a request by name.
func headers(x *pipeline.Exchange) map[string]string {
	r := x.Request
	all := r.Fields.Map(",", func(line *message.Field) string {
		if line.ID.OfEngine() && line.ID != message.ContentLength || line.ID == message.ProxyAuthorization {
			return ""
		}
		return strings.ToLower(line.Name)
	})
	all[":method"], all[":path"], all[":authority"], all[":scheme"] = r.Method, r.Path+r.Query, r.Host, r.Scheme
	all["x-forwarded-host"], all["x-forwarded-proto"] = forwardedHost(r), forwardedProto(r)
	if hops := forwardedFor(x); hops != "" {
		all["x-forwarded-for"] = hops
	}
	if client := x.ClientText(); client != "" {
		all["x-real-ip"] = client
	}
	if x.ID != "" {
		all["x-request-id"] = x.ID
	}
	for name, value := range all {
		all[name] = valid(value)
	}
	return all
}

// tell adds a body to what Envoy's protocol tells of a request.
func (c *copied) tell(r *authv3.AttributeContext_HttpRequest) {
	if c.raw {
		r.RawBody = []byte(c.text)
	} else {
		r.Body = valid(c.text)
	}
	r.Headers[strings.ToLower(partialBody)] = c.partially()
}

// valid replaces what the protocol cannot carry.
func valid(text string) string { return strings.ToValidUTF8(text, "!") }

// identity is the name of a certificate that Envoy would take.
func identity(c *message.ClientCertificate) string {
	switch {
	case c == nil:
		return ""
	case len(c.URIs) > 0:
		return c.URIs[0]
	case len(c.DNS) > 0:
		return c.DNS[0]
	}
	return c.Subject
}

// address is nil on a Unix socket.
func address(a netip.AddrPort) *corev3.Address {
	if !a.Addr().IsValid() {
		return nil
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: a.Addr().Unmap().WithZone("").String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port())},
	}}}
}
