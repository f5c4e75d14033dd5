package config

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"sluice/internal/model"
)

// match builds the match of a route as far as its parts are sound.
func (r *resolver) match(in *route) model.Match {
	m := &in.Match
	built := model.Match{ClientIP: prefixes(m.ClientIP)}
	r.pathCondition(in, &built)
	hosts := newNames(len(m.Hosts))
	for i, host := range m.Hosts {
		name, f := parseHost(host, true)
		switch {
		case host == "" && in.broken:
		case f != nil:
			r.out.add(in.below(item("match.hosts", i)), fmt.Sprintf("hosts[%d] %s", i, f.message), f.hint)
		case hosts[name]:
			r.out.add(in.below(item("match.hosts", i)), fmt.Sprintf("the host %s is here twice", name), "")
		}
		hosts.note(name)
		built.Hosts = append(built.Hosts, name)
	}
	methods := newNames(len(m.Methods))
	for i, method := range m.Methods {
		f := checkMethod(method)
		switch {
		case method == "" && in.broken:
		case f != nil:
			r.out.add(in.below(item("match.methods", i)), fmt.Sprintf("methods[%d] %s", i, f.message), f.hint)
		case methods[method]:
			r.out.add(in.below(item("match.methods", i)), fmt.Sprintf("the method %s is here twice", method), "")
		}
		methods.note(method)
		built.Methods = append(built.Methods, method)
	}
	for _, list := range []struct {
		key   string
		empty bool
	}{
		{"hosts", m.Hosts != nil && len(m.Hosts) == 0},
		{"methods", m.Methods != nil && len(m.Methods) == 0},
		{"client_ip", m.ClientIP != nil && len(m.ClientIP) == 0},
	} {
		if list.empty {
			r.out.add(in.below("match."+list.key), list.key+" is an empty list, so that no request could match", "leave the key out to match any")
		}
	}
	sameFields(r.out, m.Headers)
	built.Headers = r.conditions(m.Headers, headerName)
	built.Query = r.conditions(m.Query, queryName)
	built.Cookies = r.conditions(m.Cookies, cookieName)
	return built
}

// sameFields reports names of header fields that only case tells apart, which
// makes them one name.
func sameFields[T any](out *collector, list Map[T]) {
	first := make(map[string]string, len(list))
	for i := range list {
		name := strings.ToLower(list[i].Key)
		if other, ok := first[name]; ok {
			out.add(list[i].key, fmt.Sprintf("%s and %s are the same header field: case does not tell names apart", other, list[i].Key), "keep one of them")
			continue
		}
		first[name] = list[i].Key
	}
}

// names are those of a list so far. One that can have no repetition is nil.
type names map[string]bool

func newNames(length int) names {
	if length < 2 {
		return nil
	}
	return make(names, length)
}

func (n names) note(name string) {
	if n != nil {
		n[name] = true
	}
}

// item is the path of an item of a list, for place.below.
func item(list string, index int) string { return list + "[" + strconv.Itoa(index) + "]" }

func checkMethod(method string) *fault {
	switch {
	case method == "*":
		return faulty("has *, which is no method", "leave methods out to match any")
	case strings.EqualFold(method, "CONNECT"):
		return faulty("has CONNECT, which the gateway refuses before it looks for a route", "remove it")
	case !isToken(method):
		return faulty(fmt.Sprintf("must be a method such as GET, not %s", short(method)), "")
	case method != strings.ToUpper(method):
		return faulty(fmt.Sprintf("must be in upper case, not %s", short(method)), "write "+strings.ToUpper(method))
	}
	return nil
}

// pathCondition takes path, path_prefix or path_regex.
func (r *resolver) pathCondition(in *route, built *model.Match) {
	m := &in.Match
	built.Path.Kind = model.AnyPath
	var written []string
	take := func(key string, parse func() (model.Path, *fault)) {
		written = append(written, key)
		if len(written) > 1 {
			r.out.add(in.below("match."+key), fmt.Sprintf("a match has %s or %s, not both", written[0], key), "write a route for each")
			return
		}
		path, f := parse()
		if f != nil {
			r.out.add(in.below("match."+key), key+" "+f.message, f.hint)
			in.broken = true // what follows from the path would be misleading
			return
		}
		built.Path = path
	}
	if m.Path != nil {
		take("path", func() (model.Path, *fault) { return parsePath(m.Path.text) })
	}
	if m.PathPrefix != nil {
		take("path_prefix", func() (model.Path, *fault) { return parsePrefix(m.PathPrefix.text) })
	}
	if m.PathRegex != nil {
		take("path_regex", func() (model.Path, *fault) {
			expression, f := compile(*m.PathRegex)
			return model.Path{Kind: model.RegexPath, Text: *m.PathRegex, Regex: expression}, f
		})
	}
}

// compile compiles a regular expression.
func compile(expression string) (*regexp.Regexp, *fault) {
	if expression == "" {
		return nil, faulty("is empty", "")
	}
	compiled, err := regexp.Compile(expression)
	if err == nil {
		return compiled, nil
	}
	text, hint := err.Error(), ""
	var detail *syntax.Error
	if errors.As(err, &detail) {
		text = detail.Code.String()
		if detail.Expr != "" && detail.Expr != expression {
			text += " at " + short(detail.Expr)
		}
		if detail.Code == syntax.ErrInvalidPerlOp {
			hint = "RE2 has no look-around and no back-references"
		}
	}
	return nil, faulty(fmt.Sprintf("is no regular expression (RE2): %s", text), hint)
}

func headerName(name string) *fault {
	switch {
	case !isToken(name):
		return faulty(fmt.Sprintf("%s is no name of a header field", short(name)), "")
	case strings.EqualFold(name, "host"):
		return faulty("conditions on Host stand under hosts", "write hosts: […]")
	}
	return nil
}

func queryName(name string) *fault {
	if name == "" {
		return faulty("the name of a query parameter is empty", "")
	}
	return nil
}

func cookieName(name string) *fault {
	if !isToken(name) {
		return faulty(fmt.Sprintf("%s is no name of a cookie", short(name)), "")
	}
	return nil
}

// conditions builds the conditions on headers, query parameters or cookies.
func (r *resolver) conditions(list Map[condition], checkName func(string) *fault) []model.Condition {
	var built []model.Condition
	for i := range list {
		name, c := list[i].Key, &list[i].Value
		if f := checkName(name); f != nil {
			r.out.add(list[i].key, f.message, f.hint)
		}
		if c.broken || c.src == nil {
			continue
		}
		condition := model.Condition{Name: name, Value: c.Value, Present: c.Present}
		if given := boolInt(c.Value != nil) + boolInt(c.Regex != nil) + boolInt(c.Present != nil); given != 1 {
			r.out.add(c.place, fmt.Sprintf("the condition on %s must have regex or present, one of them", name), "write a text, {regex: …} or {present: true}")
			continue
		}
		if c.Value != nil && hasControl(*c.Value) {
			r.out.add(c.place, fmt.Sprintf("the condition on %s has a control character", name), "")
		}
		if c.Regex != nil {
			expression, f := compile(*c.Regex)
			if f != nil {
				r.out.add(c.below("regex"), "regex "+f.message, f.hint)
			}
			condition.Regex = expression
		}
		built = append(built, condition)
	}
	return built
}
