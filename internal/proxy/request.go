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
