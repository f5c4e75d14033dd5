package access

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// CORSOptions are the options of cors.
type CORSOptions struct {
	Origins     []config.TextOrRegex `config:"origins,required" doc:"who may ask: https://app.example.com, https://*.example.com for all below it, {regex: …}, or \"*\" for anyone"`
	Methods     []string             `config:"methods" doc:"the methods that they may use; \"*\": any"`
	Headers     []string             `config:"headers" doc:"the header fields that they may send beyond those that every page may; \"*\": any"`
	Expose      []string             `config:"expose" doc:"the header fields of responses that they may read beyond those that every page may"`
	Credentials bool                 `config:"credentials" doc:"whether cookies and other credentials go along"`
	MaxAge      *config.Duration     `config:"max_age" doc:"how long a browser may remember the answer to a preflight" default:"the browser's own"`
}

// cors is the settings of cors.
type cors struct {
	Any         bool // origin
	Exact       []string
	Below       []suffix
	Regexes     []*regexp.Regexp
	Methods     []string
	Headers     []string
	Expose      string // the value of its field
	Credentials bool
	MaxAge      string // alike; empty: none
}

// CORS is the kind cors (Fetch standard 3.2): it answers preflights, and tells browsers
// which pages may read a response; errors of the gateway too. What the upstream says
// about that is dropped.
func CORS() pipeline.Kind {
	return pipeline.NewKind("cors", func() *CORSOptions { return &CORSOptions{Methods: []string{"GET", "HEAD", "POST"}} },
		validateCORS, func(_ *pipeline.Site, c cors) pipeline.Middleware { return c.middleware }).As(model.Outermost)
}

func validateCORS(o *CORSOptions, report model.Report) cors {
	c := cors{Credentials: o.Credentials}
	if len(o.Origins) == 0 {
		report("origins", "origins is an empty list, so that no page may ask", "name at least one, or leave cors out")
	}
	for i := range o.Origins {
		c.origin(fmt.Sprintf("origins[%d]", i), &o.Origins[i], report)
	}
	if c.Any && len(o.Origins) > 1 {
		report("origins", "origins has *, which covers all others", "leave the others out, or it")
	}
	c.Methods = tokens("methods", "a method", o.Methods, report)
	for i, method := range c.Methods {
		if method != strings.ToUpper(method) {
			report(fmt.Sprintf("methods[%d]", i), fmt.Sprintf("methods[%d] must be in upper case, not %q", i, method), "write "+strings.ToUpper(method))
		}
	}
	if len(o.Methods) == 0 {
		report("methods", "methods is an empty list", "leave the key out for GET, HEAD and POST")
	}
	c.Headers = tokens("headers", "the name of a header field", o.Headers, report)
	expose := tokens("expose", "the name of a header field", o.Expose, report)
	if c.Expose = strings.Join(expose, ", "); c.Credentials && slices.Contains(expose, anything) {
		report("expose", "with credentials, * is no wildcard but the name of a field", "name the fields")
	}
	if o.MaxAge != nil {
		c.MaxAge = strconv.FormatInt(int64(time.Duration(*o.MaxAge)/time.Second), 10)
	}
	return c
}

const anything = "*"

// tokens checks a list of methods or names. * stands alone.
func tokens(key, what string, list []string, report model.Report) []string {
	for i, token := range list {
		path := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case !httpguts.ValidHeaderFieldName(token): // a token, as methods are
			report(path, fmt.Sprintf("%s must be %s, not %q", path, what, token), "")
		case token == anything && len(list) > 1:
			report(path, path+" is *, which covers all others", "leave the others out, or it")
		case slices.ContainsFunc(list[:i], func(s string) bool { return strings.EqualFold(s, token) }):
			report(path, fmt.Sprintf("%s is %s once more", path, token), "remove it")
		}
	}
	return slices.Clone(list)
}

const (
	allowOrigin      = "Access-Control-Allow-Origin"
	allowMethods     = "Access-Control-Allow-Methods"
	allowHeaders     = "Access-Control-Allow-Headers"
	allowCredentials = "Access-Control-Allow-Credentials"
	exposeHeaders    = "Access-Control-Expose-Headers"
	maxAge           = "Access-Control-Max-Age"
	requestHeaders   = "Access-Control-Request-Headers"
	ofCORS           = "Access-Control-"
)

func (c cors) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		allowed := c.allowed(x.Request.Fields)
		if isPreflight(x.Request) {
			x.Response = c.preflight(x.Request, allowed)
			return nil
		}
		if err := next.Serve(x); err != nil {
			e := pipeline.AsError(err)
			c.mark(&e.Fields, allowed)
			return e
		}
		c.mark(&x.Response.Fields, allowed)
		return nil
	})
}

// isPreflight tells whether a browser asks whether it may send a request; the route was
// found by the method of that one.
func isPreflight(r *message.Request) bool {
	return r.Method == "OPTIONS" && r.Fields.Has(message.Origin) && r.Fields.Get(message.AccessControlRequestMethod) != ""
}

// allowed is what Access-Control-Allow-Origin says to who asks; empty: nothing.
func (c *cors) allowed(fields message.Fields) string {
	origin, several := "", false
	for i := range fields {
		if fields[i].ID == message.Origin {
			several = several || origin != ""
			origin = fields[i].Value
		}
	}
	switch {
	case c.Any:
		return anything
	case origin == "" || several || !c.matches(origin):
		return ""
	}
	return origin
}

// preflight answers one. Who is not allowed is told nothing, which browsers take for
// a no.
func (c *cors) preflight(r *message.Request, allowed string) *message.Response {
	response := &message.Response{Status: 204, Fields: make(message.Fields, 0, 8)}
	fields := &response.Fields
	fields.Put(message.Vary, "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
	if allowed == "" {
		return response
	}
	fields.Add(allowOrigin, allowed)
	if c.Credentials {
		fields.Add(allowCredentials, "true")
	}
	// With credentials * would be no wildcard, and without them it would not cover
	// Authorization, so what the browser asks about is said.
	if methods := reflected(c.Methods, r.Fields.Get(message.AccessControlRequestMethod)); methods != "" {
		fields.Add(allowMethods, methods)
	}
	asked, _ := r.Fields.Find(requestHeaders)
	if headers := reflected(c.Headers, asked); headers != "" {
		fields.Add(allowHeaders, headers)
	}
	if c.MaxAge != "" {
		fields.Add(maxAge, c.MaxAge)
	}
	return response
}

// longestAsked bounds what is sent back of a list that a client sends.
const longestAsked = 4096

// reflected is a list as a field says it; for * it is what was asked for, if that is a
// list of tokens.
func reflected(list []string, asked string) string {
	if !slices.Contains(list, anything) {
		return strings.Join(list, ", ")
	}
	if len(asked) > longestAsked {
		return ""
	}
	for token := range strings.SplitSeq(asked, ",") {
		if !httpguts.ValidHeaderFieldName(strings.Trim(token, " \t")) {
			return ""
		}
	}
	return asked
}

// mark gives a response the fields that let pages read it, instead of those it has.
func (c *cors) mark(fields *message.Fields, allowed string) {
	fields.DeleteFunc(func(f message.Field) bool {
		return len(f.Name) > len(ofCORS) && strings.EqualFold(f.Name[:len(ofCORS)], ofCORS)
	})
	if !c.Any && !fields.HasToken(message.Vary, message.Origin.String()) && !fields.HasToken(message.Vary, anything) {
		fields.Add(message.Vary.String(), message.Origin.String())
	}
	if allowed == "" {
		return
	}
	fields.Add(allowOrigin, allowed)
	if c.Credentials {
		fields.Add(allowCredentials, "true")
	}
	if c.Expose != "" {
		fields.Add(exposeHeaders, c.Expose)
	}
}
