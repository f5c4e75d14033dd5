package proxy

import (
	"errors"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// request returns what an endpoint is asked, but for its base path and, where
// the route wants it, its host. It shares the body with the client's request
// and nothing else that changes.
func (d *destination) request(x *pipeline.Exchange) (*message.Request, error) {
	path, err := d.path(x)
	if err != nil {
		return nil, err
	}
	host, err := d.host(x)
	if err != nil {
		return nil, err
	}
	out := *x.Request
	out.Path, out.Host = path, host
	out.Fields = d.fields(x)
	out.Trailer = pipeline.Trailers(x.Request.Trailer, out.Fields)
	return &out, nil
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

// fields are the client's, without those that end here, with those that tell
// where the request came from.
func (d *destination) fields(x *pipeline.Exchange) message.Fields {
	fields := x.Request.Fields.Clone()
	upgrade, trailers := upgradeFor(x.Request), x.Request.Fields.HasToken(message.TE, "trailers")
	dropHops(&fields)
	pipeline.AnnounceTrailers(&fields)
	if x.Request.Protocol == message.HTTP10 {
		fields.Delete(message.Expect.String()) // it has no meaning there (RFC 9110 10.1.1)
	}
	var connection []string
	if upgrade != "" {
		fields.Put(message.Upgrade, upgrade)
		connection = append(connection, "Upgrade")
	}
	if trailers {
		fields.Put(message.TE, "trailers")
		connection = append(connection, "TE") // RFC 9110 10.1.4
	}
	if connection != nil {
		fields.Put(message.Connection, strings.Join(connection, ", "))
	}

	if peer := x.Peer.Addr().Unmap().WithZone(""); peer.IsValid() {
		appendTo(&fields, message.XForwardedFor, peer.String())
	}
	if x.ClientIP.IsValid() {
		fields.Put(message.XRealIP, x.ClientIP.String())
	}
	if !fields.Has(message.XForwardedProto) && x.Request.Scheme != "" {
		fields.Put(message.XForwardedProto, x.Request.Scheme)
	}
	if !fields.Has(message.XForwardedHost) && x.Request.Host != "" {
		fields.Put(message.XForwardedHost, x.Request.Host)
	}
	if x.ID != "" {
		fields.Put(message.XRequestID, x.ID) // whatever Connection named
	}
	d.addVia(&fields, x.Request.Protocol)
	return fields
}
