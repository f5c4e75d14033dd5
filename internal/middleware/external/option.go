package external

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pemfile"
	"sluice/internal/pipeline"
)

// longestTimeout is longer than anybody waits for an answer.
const longestTimeout = time.Minute

// validate reports what is wrong with options; what it returns is then not used.
func validate(o *Options, report model.Report) *settings {
	s := &settings{Timeout: time.Duration(o.Timeout), Allow: o.OnFailure == "allow", Consumer: o.ConsumerHeader, Groups: o.GroupsHeader}
	switch {
	case o.HTTP != nil && o.GRPC != nil:
		report("grpc", "external_auth has both http and grpc", "leave one of them out")
	case o.HTTP != nil:
		s.HTTP = validateHTTP(o.HTTP, report)
		s.Drop = slices.Clone(s.HTTP.ToUpstream)
	case o.GRPC != nil:
		s.GRPC = validateGRPC(o.GRPC, report)
		s.Drop = slices.Clone(o.GRPC.DropHeaders)
	default:
		report("", "external_auth does not say whom to ask", "write http: {url: …} or grpc: {address: HOST:PORT}")
	}
	for _, header := range []struct{ key, name string }{{"consumer_header", o.ConsumerHeader}, {"groups_header", o.GroupsHeader}} {
		if header.name != "" {
			checkOwn(header.key, header.name, report)
			s.Drop = append(s.Drop, header.name)
		}
	}
	switch {
	case s.Timeout == 0:
		report("timeout", "with timeout 0 nothing could be asked", "write a time such as 1s")
	case s.Timeout > longestTimeout:
		report("timeout", fmt.Sprintf("timeout must be at most %s, not %s", config.Duration(longestTimeout), o.Timeout), "requests wait for it: write a time such as 1s")
	}
	if o.Body != nil {
		s.Body = validateBody(o, report)
		if s.HTTP != nil {
			s.HTTP.Told = append(s.HTTP.Told, "Content-Type", "Content-Encoding") // or nobody could read it
		}
	}
	if o.Cache != nil {
		s.Cache = validateCache(o, report)
	}
	return s
}

func validateHTTP(o *HTTPOptions, report model.Report) *httpSettings {
	s := &httpSettings{URL: o.URL, ToUpstream: slices.Clone(o.ResponseHeaders), ToClient: slices.Clone(o.ClientHeaders)}
	s.Told = append([]string{"Authorization", "Cookie"}, o.RequestHeaders...)
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		report("http.url", "http.url must be a URL such as http://auth.internal:8080/check", "")
		return s
	case u.User != nil:
		report("http.url", "http.url has a user in it, which would take the place of the client's own", "leave it out")
	case u.Fragment != "":
		report("http.url", "http.url has a fragment, which no server is told", "remove #"+u.Fragment)
	case o.TLS != nil && u.Scheme != "https":
		report("http.tls", "http.tls is for https, and the URL has http", "write https://, or remove tls")
	}
	s.Description = u.Scheme + "://" + u.Host + u.Path
	checkNames("http.request_headers", o.RequestHeaders, checkName, report)
	checkNames("http.response_headers", o.ResponseHeaders, checkOwn, report)
	checkNames("http.client_headers", o.ClientHeaders, checkName, report)
	for i, name := range o.RequestHeaders {
		if id := message.Lookup(name); id == message.XRequestID || id == message.XRealIP || isForwarded(name) {
			report(fmt.Sprintf("http.request_headers[%d]", i), name+" is set by the gateway, and told anyway", "remove it")
		}
	}
	s.TLS = validateTLS("http.tls", o.TLS, report)
	return s
}

func isForwarded(name string) bool {
	const prefix = "X-Forwarded-"
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

func validateGRPC(o *GRPCOptions, report model.Report) *grpcSettings {
	s := &grpcSettings{Address: o.Address}
	host, port, err := net.SplitHostPort(o.Address)
	number, bad := strconv.ParseUint(port, 10, 16)
	switch path, unix := strings.CutPrefix(o.Address, "unix:"); {
	case unix && !filepath.IsAbs(path):
		report("grpc.address", "the path of the socket in grpc.address must be absolute", "write unix:/PATH")
	case unix:
	case err != nil || bad != nil || number == 0 || host == "" || strings.ContainsAny(host, "/ "):
		report("grpc.address", fmt.Sprintf("grpc.address must be host:port or unix:PATH, not %q", o.Address), "write HOST:PORT, without a scheme")
	}
	checkNames("grpc.drop_headers", o.DropHeaders, checkOwn, report)
	for _, e := range o.ContextExtensions {
		if !utf8.ValidString(e.Key) || !utf8.ValidString(e.Value) {
			report("grpc.context_extensions."+e.Key, "context_extensions are UTF-8", "")
		}
		s.Extensions = append(s.Extensions, extension{e.Key, e.Value})
	}
	s.TLS = validateTLS("grpc.tls", o.TLS, report)
	return s
}

func validateTLS(key string, o *TLSOptions, report model.Report) *pemfile.Client {
	if o == nil {
		return nil
	}
	s := &pemfile.Client{ServerName: o.ServerName}
	if o.CA != nil {
		s.CA = string(o.CA.Data)
		if _, fault := pemfile.Authorities(o.CA.Data); fault != nil {
			report(key+".ca", "ca: "+fault.Message, fault.Hint)
		}
	}
	switch {
	case (o.Cert == nil) != (o.Key == nil):
		report(key, "cert and key belong together: one of them is missing", "")
	case o.Cert != nil:
		s.Cert, s.Key = string(o.Cert.Data), string(o.Key.Data)
		if _, fault := pemfile.Pair(o.Cert.Data, o.Key.Data); fault != nil {
			report(key+"."+string(fault.In), string(fault.In)+": "+fault.Message, fault.Hint)
		}
	}
	return s
}

func validateBody(o *Options, report model.Report) *bodySettings {
	s := &bodySettings{Max: int64(o.Body.Max), Partial: o.Body.Partial, Raw: o.Body.Raw}
	if s.Max == 0 {
		report("body.max", "with body.max 0 nothing would be told", "write a size such as 64KiB, or remove body")
	}
	if s.Raw && o.HTTP != nil {
		report("body.raw", "body.raw is for grpc: by HTTP a body is told as it is", "remove it")
	}
	return s
}

func validateCache(o *Options, report model.Report) *cacheSettings {
	s := &cacheSettings{TTL: time.Duration(o.Cache.TTL), Max: o.Cache.MaxEntries}
	if s.TTL == 0 {
		report("cache.ttl", "with ttl 0 nothing would be remembered", "write a time such as 10s, or remove cache")
	}
	if s.Max < 1 {
		report("cache.max_entries", fmt.Sprintf("cache.max_entries must be at least 1, not %d", s.Max), "")
	}
	switch {
	case o.Cache.Key == nil && o.GRPC != nil:
		report("cache", "with grpc the cache needs a key: the service is told all of a request, and no two are alike", "write key: [header:Authorization, method, path], or whatever decisions depend on")
	case o.Cache.Key != nil && len(o.Cache.Key) == 0:
		report("cache.key", "cache.key is an empty list, so that one decision would stand for all", "name what decisions depend on")
	}
	for i, text := range o.Cache.Key {
		p, ok := parsePart(text)
		switch path := fmt.Sprintf("cache.key[%d]", i); {
		case !ok:
			report(path, fmt.Sprintf("%s must be method, host, path, query, body, client_ip, route, consumer, header:NAME or cookie:NAME, not %q", path, text), "")
		case p.Source == ofBody && o.Body == nil:
			report(path, path+" is body, which the service is not told", "write body: {} beside cache, or remove it")
		}
		s.Key = append(s.Key, p)
	}
	return s
}

func checkNames(key string, names []string, check func(path, name string, report model.Report), report model.Report) {
	for i, name := range names {
		check(fmt.Sprintf("%s[%d]", key, i), name, report)
	}
}

// checkOwn reports what checkName does, and what the gateway tells the upstream itself, or
// what some would take for that: no service sets it.
func checkOwn(path, name string, report model.Report) {
	switch alike := strings.ReplaceAll(name, "_", "-"); {
	case pipeline.GatewayTells(alike):
		report(path, name+" is set by the gateway, and by no service", "use a name of its own")
	case httpguts.ValidHeaderFieldName(name):
		checkName(path, alike, report)
	default:
		checkName(path, name, report)
	}
}

// checkName reports what is no name of a field, or is one of the connection's.
func checkName(path, name string, report model.Report) {
	switch id := message.Lookup(name); {
	case !httpguts.ValidHeaderFieldName(name):
		report(path, fmt.Sprintf("%s must be the name of a header field, not %q", path, name), "")
	case name == "*":
		report(path, path+" is *, which is no name and stands for none", "name each field")
	case id.OfEngine() || id == message.Host:
		report(path, name+" belongs to the connection and is not passed on", "remove it")
	}
}
