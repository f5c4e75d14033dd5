package router_test

import (
	"net/netip"
	"slices"
	"sort"
	"strings"

	"sluice/internal/message"
	"sluice/internal/model"
)

// reference finds routes as SPEC 3 and 4 say it, and in no other way: sort
// once, then try one after the other. It shares no code with the router.
type reference struct {
	entries []refEntry
}

// refEntry is a route with one of its hosts.
type refEntry struct {
	route    *model.Route
	document int
	host     string
}

func newReference(routes []*model.Route) *reference {
	var ref reference
	for i, route := range routes {
		hosts := route.Match.Hosts
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		for _, host := range hosts {
			ref.entries = append(ref.entries, refEntry{route, i, host})
		}
	}
	sort.SliceStable(ref.entries, func(i, j int) bool { return ref.entries[i].before(ref.entries[j]) })
	return &ref
}

// before is the order of SPEC 3, line by line.
func (x refEntry) before(y refEntry) bool {
	a, b := &x.route.Match, &y.route.Match
	if x.route.Priority != y.route.Priority {
		return x.route.Priority < y.route.Priority
	}
	// exact host, wildcard host (longer suffix first), any host
	hostClass := func(host string) int {
		switch {
		case host == "":
			return 3
		case host[0] == '*':
			return 2
		}
		return 1
	}
	if p, q := hostClass(x.host), hostClass(y.host); p != q {
		return p < q
	} else if p == 2 && len(x.host) != len(y.host) {
		return len(x.host) > len(y.host)
	}
	// exact path, pattern, prefix, regex; without a path condition comes last
	kinds := []model.PathKind{model.ExactPath, model.PatternPath, model.PrefixPath, model.RegexPath, model.AnyPath}
	if p, q := slices.Index(kinds, a.Path.Kind), slices.Index(kinds, b.Path.Kind); p != q {
		return p < q
	}
	if a.Path.Kind == model.PrefixPath && len(a.Path.Text) != len(b.Path.Text) {
		return len(a.Path.Text) > len(b.Path.Text) // longer first
	}
	if a.Path.Kind == model.PatternPath {
		if less, decided := patternBefore(a.Path.Text, b.Path.Text); decided {
			return less
		}
	}
	if p, q := len(a.Methods) > 0, len(b.Methods) > 0; p != q {
		return p
	}
	if p, q := len(a.Headers), len(b.Headers); p != q {
		return p > q
	}
	if p, q := len(a.Query), len(b.Query); p != q {
		return p > q
	}
	if p, q := len(a.Cookies), len(b.Cookies); p != q {
		return p > q
	}
	if p, q := len(a.ClientIP) > 0, len(b.ClientIP) > 0; p != q {
		return p
	}
	return x.document < y.document
}

// patternBefore: more literal segments first, left to right.
func patternBefore(a, b string) (less, decided bool) {
	kind := func(segment string) int {
		switch {
		case strings.HasSuffix(segment, "...}"):
			return 3
		case strings.HasPrefix(segment, "{"):
			return 2
		}
		return 1
	}
	x, y := strings.Split(a[1:], "/"), strings.Split(b[1:], "/")
	literals := func(list []string) (n int) {
		for _, segment := range list {
			if kind(segment) == 1 {
				n++
			}
		}
		return n
	}
	if p, q := literals(x), literals(y); p != q {
		return p > q, true
	}
	for i := 0; i < len(x) && i < len(y); i++ {
		if p, q := kind(x[i]), kind(y[i]); p != q {
			return p < q, true
		}
	}
	if len(x) != len(y) {
		return len(x) < len(y), true
	}
	return false, false
}

// refRequest is a request with what the reference needs of it worked out.
type refRequest struct {
	*message.Request
	listener string
	client   netip.Addr
	host     string
	method   string
	segments []string // nil: the path is none
}

func newRefRequest(r *message.Request, listener string, client netip.Addr) *refRequest {
	q := &refRequest{Request: r, listener: listener, client: client, host: r.Host, method: r.Method}
	if i := strings.IndexByte(q.host, ':'); i >= 0 {
		q.host = q.host[:i]
	}
	q.host = strings.ToLower(strings.TrimRight(q.host, "."))
	if strings.HasPrefix(r.Path, "/") {
		q.segments = strings.Split(r.Path[1:], "/")
	}
	var origin, asks bool
	var asked string
	for _, f := range r.Fields {
		switch strings.ToLower(f.Name) {
		case "origin":
			origin = true
		case "access-control-request-method":
			if !asks {
				asks, asked = true, f.Value
			}
		}
	}
	if r.Method == "OPTIONS" && origin && asked != "" {
		q.method = asked
	}
	return q
}

// match returns the route, its parameters, and if there is none what to allow.
func (ref *reference) match(q *refRequest) (*model.Route, []model.Param, []string) {
	allow := map[string]bool{}
	for _, e := range ref.entries {
		if e.host != "" && e.host != q.host && !(e.host[0] == '*' && len(q.host) >= len(e.host) && strings.HasSuffix(q.host, e.host[1:])) {
			continue
		}
		params, ok := refPath(&e.route.Match.Path, q)
		if !ok || !refConditions(e.route, q) {
			continue
		}
		methods := e.route.Match.Methods
		if len(methods) == 0 || slices.Contains(methods, q.method) || q.method == "HEAD" && slices.Contains(methods, "GET") {
			return e.route, params, nil
		}
		for _, method := range methods {
			allow[method] = true
			if method == "GET" {
				allow["HEAD"] = true
			}
		}
	}
	var list []string
	for method := range allow {
		list = append(list, method)
	}
	sort.Strings(list)
	return nil, nil, list
}

func refPath(path *model.Path, q *refRequest) ([]model.Param, bool) {
	if path.Kind == model.AnyPath {
		return nil, true
	}
	if q.segments == nil {
		return nil, false
	}
	switch path.Kind {
	case model.ExactPath:
		return nil, q.Path == path.Text
	case model.PrefixPath:
		if strings.HasSuffix(path.Text, "/") {
			return nil, strings.HasPrefix(q.Path, path.Text)
		}
		return nil, q.Path == path.Text || strings.HasPrefix(q.Path, path.Text+"/")
	case model.RegexPath:
		return nil, path.Regex.MatchString(q.Path)
	case model.PatternPath, model.AnyPath:
	}
	var params []model.Param
	left := q.segments
	for _, segment := range path.Segments {
		if len(left) == 0 {
			return nil, false
		}
		switch {
		case segment.Rest:
			return append(params, model.Param{Name: segment.Param, Value: strings.Join(left, "/")}), true
		case segment.Param != "":
			if left[0] == "" {
				return nil, false
			}
			params = append(params, model.Param{Name: segment.Param, Value: left[0]})
		case segment.Literal != left[0]:
			return nil, false
		}
		left = left[1:]
	}
	return params, len(left) == 0
}

func refConditions(route *model.Route, q *refRequest) bool {
	if route.Listeners != nil && !slices.Contains(route.Listeners, q.listener) {
		return false
	}
	if len(route.Match.ClientIP) > 0 {
		in := false
		for _, prefix := range route.Match.ClientIP {
			in = in || prefix.Contains(q.client)
		}
		if !in {
			return false
		}
	}
	for _, c := range route.Match.Headers {
		value, there := q.Host, q.Host != ""
		if !strings.EqualFold(c.Name, "Host") {
			value, there = "", false
			for _, f := range slices.Backward(q.Fields) {
				if strings.EqualFold(f.Name, c.Name) {
					value, there = f.Value, true
				}
			}
		}
		if !refCondition(c, value, there) {
			return false
		}
	}
	for _, c := range route.Match.Query {
		if value, there := refQuery(q.Query, c.Name); !refCondition(c, value, there) {
			return false
		}
	}
	for _, c := range route.Match.Cookies {
		if value, there := refCookie(q.Fields, c.Name); !refCondition(c, value, there) {
			return false
		}
	}
	return true
}

func refCondition(c model.Condition, value string, there bool) bool {
	if c.Present != nil {
		return there == *c.Present
	}
	if !there {
		return false
	}
	if c.Value != nil {
		return value == *c.Value
	}
	return c.Regex.MatchString(value)
}

func refQuery(query, name string) (string, bool) {
	for _, pair := range strings.Split(strings.TrimPrefix(query, "?"), "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		if refDecode(key) == name {
			return refDecode(value), true
		}
	}
	return "", false
}

func refDecode(text string) string {
	const hex = "0123456789abcdef"
	var out []byte
	for text != "" {
		if text[0] == '%' && len(text) > 2 {
			high := strings.IndexByte(hex, strings.ToLower(text)[1])
			low := strings.IndexByte(hex, strings.ToLower(text)[2])
			if high >= 0 && low >= 0 {
				out = append(out, byte(high*16+low))
				text = text[3:]
				continue
			}
		}
		if text[0] == '+' {
			out = append(out, ' ')
		} else {
			out = append(out, text[0])
		}
		text = text[1:]
	}
	return string(out)
}

func refCookie(fields message.Fields, name string) (string, bool) {
	for _, f := range fields {
		if !strings.EqualFold(f.Name, "Cookie") {
			continue
		}
		for _, pair := range strings.Split(f.Value, ";") {
			key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
			if ok && key == name {
				return strings.Trim(value, `"`), true
			}
		}
	}
	return "", false
}
