package config

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/model"
)

// destinations takes the one destination of a route.
func (r *resolver) destinations(in *route, built *model.Route) {
	var written []string
	for _, destination := range []struct {
		key  string
		here bool
	}{{"upstream", in.Upstream != nil}, {"split", in.Split != nil}, {"redirect", in.Redirect != nil}, {"respond", in.Respond != nil}} {
		if destination.here {
			written = append(written, destination.key)
		}
	}
	switch len(written) {
	case 0:
		r.out.add(in.place, fmt.Sprintf("the route %s has no destination", short(built.ID)), "write upstream, split, redirect or respond")
	case 1:
	default:
		r.out.add(in.below(written[1]), fmt.Sprintf("the route %s has %d destinations, %s", short(built.ID), len(written), strings.Join(written, " and ")), "keep one of them")
	}
	if in.Upstream != nil {
		built.Upstream = r.upstreamNamed(in.below("upstream"), in.src.Dir, *in.Upstream)
		r.checkFallbacks(built, built.Upstream)
	}
	built.Split = r.split(in, built)
	built.Retry = r.retry(in, built)
	if in.Redirect != nil {
		built.Redirect = r.redirect(in, built)
	}
	if in.Respond != nil {
		built.Respond = r.respond(in, built)
	}
	if in.Upstream == nil && in.Split == nil && len(written) > 0 {
		if in.StripPrefix {
			r.out.add(in.below("strip_prefix"), "strip_prefix needs the destination upstream or split", "remove it")
		}
		if in.Rewrite != nil {
			r.out.add(in.below("rewrite"), "rewrite needs the destination upstream or split", "remove it")
		}
	}
}

// template checks the placeholders of one of the route's own templates.
func (r *resolver) template(in *route, built *model.Route, path string, t model.Template) {
	r.parameters(func() place { return in.below(path) }, built, t)
}

// parameters checks that a route's path has the parameters that a template names.
func (r *resolver) parameters(at func() place, built *model.Route, t model.Template) {
	for _, part := range t.Parts {
		if part.Source == model.FromParam && !hasParameter(built.Match.Path, part.Name) {
			checkParameter(r.out, at(), part.Name, built.ID, built.Match.Path)
		}
	}
}

// rewrites takes strip_prefix and rewrite.
func (r *resolver) rewrites(in *route, built *model.Route) {
	if in.StripPrefix && built.Match.Path.Kind != model.PrefixPath {
		r.out.add(in.below("strip_prefix"), "strip_prefix needs path_prefix in the match", "use rewrite.path instead")
	}
	built.Rewrite.Host = "preserve"
	if in.Rewrite == nil {
		return
	}
	if path := in.Rewrite.Path; path != nil {
		if in.StripPrefix {
			r.out.add(in.below("rewrite.path"), "rewrite.path replaces the whole path, so that strip_prefix has no effect", "keep one of them")
		}
		r.rewritePath(in, path)
		r.template(in, built, "rewrite.path", path.Template)
		built.Rewrite.Path = &path.Template
	}
	if in.Rewrite.Host != nil {
		r.rewriteHost(in, built)
	}
}

// rewritePath checks the path of a rewrite and escapes what no path may have.
func (r *resolver) rewritePath(in *route, path *Template) {
	where := in.below("rewrite.path")
	switch text := literals(path.Template); {
	case len(path.Parts) == 0:
		r.out.add(where, "path is empty", "write a path such as /")
		return
	case path.Parts[0].Source == "" && !strings.HasPrefix(path.Parts[0].Literal, "/"):
		r.out.add(where, fmt.Sprintf("path must begin with a slash: %s", short(path.Template.String())), "write /"+path.Template.String())
	case strings.ContainsAny(text, "?#"):
		r.out.add(where, "path must be a path alone, without ? and #", "the query goes on as it came")
	case hasControl(text) || strings.Contains(text, "\t"):
		r.out.add(where, "path has a control character", "")
	}
	escapeLiterals(&path.Template)
	if static, ok := path.Static(); ok && strings.HasPrefix(static, "/") {
		if _, err := canonical.Path(static, canonical.Options{EncodedSlash: canonical.Keep}); err != nil {
			r.out.add(where, fmt.Sprintf("path cannot be used: %v", err), "")
		}
	}
}

// escapeLiterals escapes white space and what is not ASCII in the literal parts
// of a template for a path or a URL.
func escapeLiterals(t *model.Template) {
	for i := range t.Parts {
		t.Parts[i].Literal = escapeUnsafe(t.Parts[i].Literal)
	}
}

func (r *resolver) rewriteHost(in *route, built *model.Route) {
	host := in.Rewrite.Host.Template
	r.template(in, built, "rewrite.host", host)
	static, ok := host.Static()
	switch {
	case ok && (static == "preserve" || static == "upstream"):
		built.Rewrite.Host = static
		return
	case ok && (strings.EqualFold(static, "preserve") || strings.EqualFold(static, "upstream")):
		r.out.add(in.below("rewrite.host"), fmt.Sprintf("host must be preserve, upstream or a host, not %s", short(static)), "write "+strings.ToLower(static))
	case ok && !canonical.ValidAuthority(static), !ok && hasControl(literals(host)):
		r.out.add(in.below("rewrite.host"), fmt.Sprintf("host must be preserve, upstream or a host, not %s", short(host.String())), "")
	}
	built.Rewrite.Host, built.Rewrite.Literal = "", &host
}

func (r *resolver) redirect(in *route, built *model.Route) *model.Redirect {
	redirect := &model.Redirect{To: in.Redirect.To.Template, Status: in.Redirect.Status}
	text := literals(redirect.To)
	to := func(message, hint string) { r.out.add(in.below("redirect.to"), message, hint) }
	switch {
	case len(redirect.To.Parts) == 0:
		to("to is empty", "write a path or a URL")
	case strings.HasPrefix(redirect.To.Parts[0].Literal, "//"):
		to("to begins with //, which browsers take for another host", "write the scheme too, as in https://example.com/")
	case hasControl(text) || strings.ContainsAny(text, " \t"):
		to("to has white space or a control character", "write %20 for a space")
	}
	if !slices.Contains([]int{301, 302, 303, 307, 308}, redirect.Status) {
		r.out.add(in.below("redirect.status"), fmt.Sprintf("status must be 301, 302, 303, 307 or 308, not %d", redirect.Status), "308 and 307 keep the method, for good and for now")
	}
	escapeLiterals(&redirect.To)
	r.template(in, built, "redirect.to", redirect.To)
	return redirect
}

func (r *resolver) respond(in *route, built *model.Route) *model.Respond {
	return r.fixed(in.Respond, func(path string) place { return in.below("respond." + path) }, func(path string, t model.Template) {
		r.template(in, built, "respond."+path, t)
	})
}

// fixed builds a fixed response. at tells the place of one of its keys, check
// looks at its templates.
func (r *resolver) fixed(in *respond, at func(path string) place, check func(path string, t model.Template)) *model.Respond {
	respond := &model.Respond{Status: in.Status}
	if respond.Status < 200 || respond.Status > 599 {
		r.out.add(at("status"), fmt.Sprintf("status must be from 200 to 599, not %d", respond.Status), "")
	}
	if body := in.Body; body != nil {
		if s := respond.Status; (s == 204 || s == 205 || s == 304) && len(body.Parts) > 0 {
			r.out.add(at("body"), fmt.Sprintf("a response with the status %d has no body", s), "remove the body, or use the status 200")
		}
		check("body", body.Template)
		respond.Body = &body.Template
	}
	sameFields(r.out, in.Headers)
	for i := range in.Headers {
		header := &in.Headers[i]
		if f := responseField(header.Key, header.Value.Template); f != nil {
			r.out.add(header.key, f.message, f.hint)
		}
		check("headers."+header.Key, header.Value.Template)
		respond.Fields = append(respond.Fields, model.FieldTemplate{Name: header.Key, Value: header.Value.Template})
	}
	return respond
}

func responseField(name string, value model.Template) *fault {
	switch {
	case message.Lookup(name).OfEngine(), message.Lookup(name) == message.XRequestID:
		return faulty(fmt.Sprintf("the gateway sets %s itself", name), "remove it")
	case !isToken(name):
		return faulty(fmt.Sprintf("%s is no name of a header field", short(name)), "")
	case hasControl(literals(value)):
		return faulty(fmt.Sprintf("the value of %s has a control character", name), "")
	}
	return nil
}
