package proxy

import (
	"errors"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// request sets what an endpoint is asked, but for its base path and, where the
// route wants it, its host. It shares the body with the client's request and
// nothing else that changes. The fields go where out has them.
func (d *destination) request(x *pipeline.Exchange, out *message.Request) error {
	path, err := d.path(x)
	if err != nil {
		return err
	}
	host, err := d.host(x)
	if err != nil {
		return err
	}
	fields := d.fields(x, out.Fields)
	*out = *x.Request
	out.Path, out.Host, out.Fields = path, host, fields
	out.Trailer = pipeline.Trailers(x.Request.Trailer, fields)
	return nil
}

// path is the path that an endpoint is asked for, below its base path.
func (d *destination) path(x *pipeline.Exchange) (string, error) {
	path := x.Request.Path
	if d.route.StripPrefix && d.route.Match.Path.Kind == model.PrefixPath {
		path = stripped(path, d.route.Match.Path.Text)
	}
	if d.route.Rewrite.Path == nil {
		return path, nil
	}
	// {path} is what stripping left.
	view, request := *x, *x.Request
	request.Path = path
	view.Request = &request
	return view.ExpandPath(d.route.Rewrite.Path)
}

// stripped drops a prefix of whole segments. At least a slash is left, and
// never two at the beginning, which some would read as an authority.
func stripped(path, prefix string) string {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(prefix, "/"))
	if !ok || rest != "" && rest[0] != '/' || strings.TrimSuffix(prefix, "/") == "" {
		return path
	}
	return "/" + strings.TrimLeft(rest, "/")
}

// joined puts a base path in front of a path. The asterisk-form (RFC 9112
// 3.2.4) has none.
func joined(base, path string) string {
	if path == "*" {
		return path
	}
	return base + path
}

// host is the authority that an endpoint is asked for; "upstream" is decided
// with the endpoint.
func (d *destination) host(x *pipeline.Exchange) (string, error) {
	if d.route.Rewrite.Literal == nil {
		return x.Request.Host, nil
	}
	host, err := x.ExpandField(d.route.Rewrite.Literal)
	if err != nil {
		return "", err
	}
	if !canonical.ValidAuthority(host) {
		return "", pipeline.NewError(pipeline.BadRequest, errors.New("the rewritten host is not one"))
	}
	return host, nil
}

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
