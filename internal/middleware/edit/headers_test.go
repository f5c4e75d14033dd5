package edit_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/middleware/edit"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// resolve resolves a route with the options of one middleware, in flow style.
func resolve(options string) (*model.Route, []string) {
	kind := edit.Headers()
	result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
admin: {address: "127.0.0.1:0"}
routes: [{id: r, match: {path: "/{id}/{rest...}"}, respond: {status: 200}, middleware: [{headers: ` + options + `}]}]
`)}}, []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate, Role: kind.Role}}, config.Environment{})
	var problems []string
	for _, p := range result.Problems {
		if p.Warning { // of its place in the chain, in which it is alone
			continue
		}
		text := p.Message
		if p.Hint != "" {
			text += " (" + p.Hint + ")"
		}
		problems = append(problems, text)
	}
	if result.Gateway == nil {
		return nil, problems
	}
	return result.Gateway.Routes[0], problems
}

// lines turns "A: 1|B: 2" into fields.
func lines(text string) (fields message.Fields) {
	for line := range strings.SplitSeq(text, "|") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			fields.Add(name, value)
		}
	}
	return fields
}

func text(fields message.Fields) string {
	all := make([]string, len(fields))
	for i, field := range fields {
		all[i] = field.Name + ": " + field.Value
	}
	return strings.Join(all, "|")
}

// exchange is one that came for /a%20b/x/y.
func exchange(t *testing.T, route *model.Route, fields string) *pipeline.Exchange {
	t.Helper()
	request := &message.Request{Protocol: message.HTTP11, Method: "PUT", Scheme: "http", Host: "Shop.example.com:81", Path: "/a%20b/x/y", Query: "?q=1", Fields: lines(fields)}
	x := pipeline.NewExchange(t.Context(), request, &model.Listener{}, netip.MustParseAddrPort("192.0.2.7:1"), time.Time{})
	x.ID, x.Route, x.Consumer = "the-id", route, "ann"
	x.Params = []model.Param{{Name: "id", Value: "a%20b"}, {Name: "rest", Value: "x/y"}}
	return x
}

func serve(x *pipeline.Exchange, destination pipeline.HandlerFunc) error {
	return pipeline.Chain(destination, edit.Headers().Build(&pipeline.Site{}, x.Route.Chain[0].Settings)).Serve(x)
}

func TestEdits(t *testing.T) {
	for _, test := range []struct{ name, edits, before, after string }{
		{"set a new one", "{set: {X-A: one}}", "X-B: 2", "X-B: 2|X-A: one"},
		{"set one that is there, twice", "{set: {x-a: one}}", "X-A: 1|X-B: 2|X-a: 3", "X-A: one|X-B: 2"},
		{"add", "{add: {X-A: one}}", "X-A: 1|X-B: 2", "X-A: 1|X-B: 2|X-A: one"},
		{"remove", "{remove: [x-a]}", "X-A: 1|X-B: 2|X-A: 3", "X-B: 2"},
		{"what is alike goes", "{set: {X-A: one}, remove: [X-B]}", "X_A: 1|x-a: 1|x_b: 1", "x-a: one"},
		{"remove what is not there", "{remove: [X-C]}", "X-B: 2", "X-B: 2"},
		{"first remove, then set, then add", "{add: {X-A: three}, set: {X-A: two, X-B: two}, remove: [X-A]}", "X-A: 1|X-B: 1|X-C: 1", "X-B: two|X-C: 1|X-A: two|X-A: three"},
		{"in the order in which they are written", "{set: {X-Z: 'z', X-A: 'a'}, add: {X-Y: 'y', X-B: 'b'}}", "", "X-Z: z|X-A: a|X-Y: y|X-B: b"},
		{"an empty value", `{set: {X-A: ""}}`, "X-A: 1", "X-A: "},
		{"placeholders", "{set: {X-A: '{id} {rest} {client_ip} {method} {host} {path} {query} {request_id} {route} {consumer} {header.X-B} {cookie.c} {claim.sub}.'}}", "X-B: b|X-B: b2|Cookie: c=d", "X-B: b|X-B: b2|Cookie: c=d|X-A: a b x/y 192.0.2.7 PUT shop.example.com /a%20b/x/y q=1 the-id r ann b d ."},
		{"braces", "{set: {X-A: '{{id}} {id}'}}", "", "X-A: {id} a b"},
		{"values are not expanded again", "{set: {X-A: '{header.X-B}'}}", "X-B: {id}", "X-B: {id}|X-A: {id}"},
		{"white space around a value", "{set: {X-A: ' {header.X-B} '}}", "", "X-A: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			route, problems := resolve("{request: " + test.edits + "}")
			if problems != nil {
				t.Fatal(problems)
			}
			x := exchange(t, route, test.before)
			seen := ""
			if err := serve(x, func(x *pipeline.Exchange) error {
				seen = text(x.Request.Fields)
				x.Response = &message.Response{Status: 200, Fields: lines("X-Out: 1")}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.after, seen); diff != "" || text(x.Response.Fields) != "X-Out: 1" {
				t.Errorf("the response has %s, the request\n%s", text(x.Response.Fields), diff)
			}
		})
	}
}

// TestRole: who is to be told who the client is stands behind what finds out.
func TestRole(t *testing.T) {
	for options, want := range map[string]model.Role{
		"{request: {set: {X-A: '{client_ip}'}}}":    model.Plain,
		"{request: {set: {X-A: 'a{consumer}'}}}":    model.Telling,
		"{request: {add: {X-A: '{claim.sub}'}}}":    model.Telling,
		"{response: {set: {X-A: '{consumer}'}}}":    model.Plain,
		"{request: {set: {X-A: '{{consumer}}'}}}":   model.Plain,
		"{request: {remove: [X-A, X-B, consumer]}}": model.Plain,
	} {
		route, problems := resolve(options)
		if route == nil || route.Chain[0].Role != want {
			t.Errorf("%s: %v", options, problems)
		}
	}
}

// TestEditsOfTrailers: what is removed or set does not come behind the body.
func TestEditsOfTrailers(t *testing.T) {
	route, problems := resolve("{request: {set: {X-A: one}, remove: [X-B]}, response: {set: {X-C: one}, remove: [X-D]}}")
	if problems != nil {
		t.Fatal(problems)
	}
	x := exchange(t, route, "")
	x.Request.Trailer = func() message.Fields { return lines("x-a: 2|X_B: 2|X-C: 2") }
	if err := serve(x, func(x *pipeline.Exchange) error {
		if got := text(x.Request.Trailer()); got != "X-C: 2" {
			t.Errorf("the trailer of the request has %s", got)
		}
		x.Response = &message.Response{Status: 200, Trailer: func() message.Fields { return lines("x-c: 2|X-D: 2|X-A: 2") }}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := text(x.Response.Trailer()); got != "X-A: 2" {
		t.Errorf("the trailer of the response has %s", got)
	}
}

func TestEditsOfResponses(t *testing.T) {
	route, problems := resolve("{response: {set: {X-A: '{id}', Content-Type: text/x}, add: {Set-Cookie: c=2}, remove: [Server, Allow]}}")
	if problems != nil {
		t.Fatal(problems)
	}
	x := exchange(t, route, "X-A: 1|Server: 1")
	if err := serve(x, func(x *pipeline.Exchange) error {
		if got := text(x.Request.Fields); got != "X-A: 1|Server: 1" {
			t.Errorf("the request has %s", got)
		}
		x.Response = &message.Response{Status: 200, Fields: lines("Server: 1|X-A: 1|Set-Cookie: c=1")}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := text(x.Response.Fields), "X-A: a b|Set-Cookie: c=1|Content-Type: text/x|Set-Cookie: c=2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	// The gateway's own errors are responses, too.
	x = exchange(t, route, "")
	refused := pipeline.NewError(pipeline.MethodNotAllowed, nil)
	refused.Fields = lines("Allow: GET|Set-Cookie: c=1")
	err := serve(x, func(*pipeline.Exchange) error { return refused })
	if pipeline.AsError(err).Word != pipeline.MethodNotAllowed || x.Response != nil {
		t.Fatalf("got %v and %v", err, x.Response)
	}
	pipeline.Fail(x, err)
	if got, want := text(x.Response.Fields), "Set-Cookie: c=1|X-A: a b|Content-Type: text/x|Set-Cookie: c=2|X-Request-ID: the-id"; got != want {
		t.Errorf("an error has %s, want %s", got, want)
	}

	// So is what a handler's own error comes to.
	x = exchange(t, route, "")
	cause := errors.New("it broke")
	if err := serve(x, func(*pipeline.Exchange) error { return cause }); !errors.Is(err, cause) || pipeline.AsError(err).Word != pipeline.Internal || pipeline.AsError(err).Fields.Get(message.SetCookie) != "c=2" {
		t.Errorf("got %v", err)
	}
}

func TestControlCharactersInValues(t *testing.T) {
	for _, direction := range []string{"request", "response"} {
		for _, kind := range []string{"set", "add"} {
			route, problems := resolve("{" + direction + ": {" + kind + ": {X-A: 'to {header.X-B}'}}}")
			if problems != nil {
				t.Fatal(problems)
			}
			for value, refused := range map[string]bool{"plain": false, "a\tb": false, "ü": false, "a\r\nX-C: 1": true, "a\nb": true, "a\x00b": true, "a\x7fb": true} {
				x := exchange(t, route, "")
				x.Request.Fields.Add("X-B", value)
				reached := false
				err := serve(x, func(x *pipeline.Exchange) error {
					reached = true
					x.Response = &message.Response{Status: 200}
					return nil
				})
				if (err != nil) != refused || refused && pipeline.AsError(err).Word != pipeline.BadRequest {
					t.Errorf("%s %s with %q: %v", direction, kind, value, err)
				}
				if reached == (refused && direction == "request") {
					t.Errorf("%s %s with %q: the destination was reached: %v", direction, kind, value, reached)
				}
			}
		}
	}
}

func TestControlCharactersInValuesOfErrors(t *testing.T) {
	route, problems := resolve("{response: {set: {X-A: '{header.X-B}'}}}")
	if problems != nil {
		t.Fatal(problems)
	}
	x := exchange(t, route, "")
	x.Request.Fields.Add("X-B", "a\nb")
	err := serve(x, func(*pipeline.Exchange) error { return pipeline.NewError(pipeline.NoEndpoint, nil) })
	if word := pipeline.AsError(err).Word; word != pipeline.BadRequest {
		t.Errorf("got %v", err)
	}
}

func TestProblems(t *testing.T) {
	gateways := " is set by the gateway and cannot be edited ("
	alike := " would be taken for a field that the gateway sets (write another name)"
	connection := " belongs to the connection and cannot be edited (leave it to the gateway)"
	for options, want := range map[string]string{
		"{request: {set: {X-A: one}}}":                    "",
		"{response: {set: {Host: one}}}":                  "",
		"{}":                                              "headers does nothing (name fields under request or response, in set, add or remove)",
		"{request: {}}":                                   "headers does nothing (name fields under request or response, in set, add or remove)",
		"{request: {set: {X-A: a, x-a: b}}}":              "the field x-a is set twice: neither case nor _ for - tells names apart (keep one of them)",
		"{request: {set: {'X A': one}}}":                  `the field name "X A" is not valid (field names are letters, digits and -)`,
		"{request: {set: {'': one}}}":                     `the field name "" is not valid (field names are letters, digits and -)`,
		"{response: {add: {'X:': one}}}":                  `the field name "X:" is not valid (field names are letters, digits and -)`,
		"{response: {remove: [X-A, 'ü']}}":                `the field name "ü" is not valid (field names are letters, digits and -)`,
		"{request: {set: {X_Forwarded_For: a}}}":          "X_Forwarded_For" + alike,
		"{request: {set: {X_Forwarded_Proto: a}}}":        "X_Forwarded_Proto" + alike,
		"{request: {add: {x_real-ip: a}}}":                "x_real-ip" + alike,
		"{request: {set: {Transfer_Encoding: chunked}}}":  "the field Transfer_Encoding" + connection,
		"{request: {add: {Content_Length: '1'}}}":         "the field Content_Length" + connection,
		"{response: {set: {X_Forwarded_For: a}}}":         "",
		"{request: {set: {X-A: a, x_a: b}}}":              "the field x_a is set twice: neither case nor _ for - tells names apart (keep one of them)",
		"{response: {set: {X-A: a, x_a: b}}}":             "",
		"{request: {remove: [connection]}}":               "the field connection" + connection,
		"{request: {set: {Content-Length: '1'}}}":         "the field Content-Length" + connection,
		"{response: {set: {Transfer-Encoding: chunked}}}": "the field Transfer-Encoding" + connection,
		"{response: {add: {Keep-Alive: x}}}":              "the field Keep-Alive" + connection,
		"{request: {add: {TE: trailers}}}":                "the field TE" + connection,
		"{request: {set: {Trailer: X}}}":                  "the field Trailer" + connection,
		"{request: {set: {Upgrade: h2c}}}":                "the field Upgrade" + connection,
		"{request: {set: {Proxy-Connection: x}}}":         "the field Proxy-Connection" + connection,
		"{request: {set: {host: x}}}":                     "Host is not edited by headers (use the route's rewrite.host)",
		"{request: {remove: [Host]}}":                     "Host is not edited by headers (use the route's rewrite.host)",
		"{request: {set: {X-Forwarded-For: 9.9.9.9}}}":    "X-Forwarded-For" + gateways + "set another field, with {client_ip} for the client's address)",
		"{request: {add: {x-real-ip: 9.9.9.9}}}":          "x-real-ip" + gateways + "set another field, with {client_ip} for the client's address)",
		"{request: {remove: [Via]}}":                      "Via" + gateways + "set another field, with {client_ip} for the client's address)",
		"{request: {remove: [X-Request-ID]}}":             "X-Request-ID" + gateways + "set another field to {request_id})",
		"{response: {set: {X-Request-ID: a}}}":            "X-Request-ID" + gateways + "set another field to {request_id})",
		"{request: {set: {X-Forwarded-Proto: https, X-Forwarded-Host: a}}, response: {remove: [Via, X-Real-IP, Proxy-Authenticate]}}": "",
		"{request: {add: {X-Forwarded-Host: a}}}":    "X-Forwarded-Host is one line that every request has: it can only be set (write it under set)",
		"{request: {remove: [X-Forwarded-Proto]}}":   "X-Forwarded-Proto is one line that every request has: it can only be set (write it under set)",
		"{request: {set: {Proxy-Authorization: a}}}": "the field Proxy-Authorization" + connection,
		"{request: {set: {HTTP2-Settings: a}}}":      "the field HTTP2-Settings" + connection,
		`{request: {set: {X-A: "a\nb"}}}`:            "the value of X-A has a control character (leave it out; a value is one line)",
		`{response: {add: {X-A: "a\0b"}}}`:           "the value of X-A has a control character (leave it out; a value is one line)",
	} {
		_, problems := resolve(options)
		if got := strings.Join(problems, "|"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", options, got, want)
		}
	}
}
