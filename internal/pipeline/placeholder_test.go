package pipeline_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// template parses "/a/{id}/{header.X}" well enough for a test.
func template(text string) *model.Template {
	t := &model.Template{}
	for text != "" {
		before, rest, found := strings.Cut(text, "{")
		if before != "" {
			t.Parts = append(t.Parts, model.TemplatePart{Literal: before})
		}
		if !found {
			break
		}
		name, after, _ := strings.Cut(rest, "}")
		part := model.TemplatePart{Source: model.FromParam, Name: name}
		for _, builtin := range model.Builtins {
			if name == string(builtin) {
				part = model.TemplatePart{Source: builtin}
			}
		}
		for _, lookup := range model.Lookups {
			if key, ok := strings.CutPrefix(name, string(lookup)+"."); ok {
				part = model.TemplatePart{Source: lookup, Name: key}
			}
		}
		t.Parts = append(t.Parts, part)
		text = after
	}
	return t
}

// filled is an exchange that has a value for every placeholder.
func filled(t *testing.T, lines ...string) *pipeline.Exchange {
	t.Helper()
	x := exchange(t, untrusted, lines...)
	x.Request.Host = "A.Example.:8080"
	x.Request.Path = "/users/a%2Fb/x%20y"
	x.ID, x.Consumer, x.Route = "id-1", "ann", &model.Route{ID: "users"}
	x.Params = []model.Param{{Name: "id", Value: "a%2Fb"}, {Name: "rest", Value: "x%20y/z"}, {Name: "bad", Value: "%zz"}, {Name: "crlf", Value: "a%0D%0Ab"}}
	x.Principal = &pipeline.Principal{Claims: map[string]any{"sub": "u1", "level": 3.0, "roles": []any{"a"}}}
	return x
}

func TestExpandText(t *testing.T) {
	x := filled(t, "X-A: first", "x-a: second", "Cookie: c=1; d=2", "X-Braces: {id} {{method}}")
	for text, want := range map[string]string{
		"":                  "",
		"plain":             "plain",
		"{client_ip}":       "192.0.2.1",
		"{method} {host}":   "GET a.example",
		"{path}|{query}":    "/users/a%2Fb/x%20y|q",
		"{request_id}":      "id-1",
		"{route}{consumer}": "usersann",
		"{header.x-A}":      "first",
		"{header.Host}":     "A.Example.:8080",
		"{header.none}.":    ".",
		"{cookie.d}":        "2",
		"{cookie.none}.":    ".",
		"{claim.sub}":       "u1",
		"{claim.level}":     "3",
		"{claim.roles}":     "a",
		"{claim.none}.":     ".",
		"{id} {rest}":       "a/b x y/z",
		"{bad}":             "%zz",
		"{unknown}.":        ".",
		"{header.X-Braces}": "{id} {{method}}", // never expanded again
	} {
		if got := x.ExpandText(template(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	bare := exchange(t, "")
	bare.Request.Query = ""
	if got := bare.ExpandText(template("{client_ip}{route}{consumer}{request_id}{query}{claim.sub}.")); got != "." {
		t.Errorf("an exchange without values: %q", got)
	}
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "BUG:") {
			t.Errorf("an unknown placeholder: %s", got)
		}
	}()
	x.ExpandText(&model.Template{Parts: []model.TemplatePart{{Source: "nonsense"}}})
}

func TestExpandField(t *testing.T) {
	x := filled(t, "X-Tab: a\tb", "X-NUL: a\x00b", "X-DEL: a\x7f", "X-Blank:  ")
	for text, want := range map[string]string{
		"{id}":             "a/b",
		"{header.X-Blank}": "",
		"{header.X-Tab}":   "a\tb",
		"v{header.X-None}": "v",
		"ü{method}":        "üGET",
	} {
		if got, err := x.ExpandField(template(text)); got != want || err != nil {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"{crlf}", "{header.X-NUL}", "{header.X-DEL}", "a\r\nb{method}"} {
		if got, err := x.ExpandField(template(text)); pipeline.AsError(err) == nil || pipeline.AsError(err).Word != pipeline.BadRequest {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestExpandPath(t *testing.T) {
	for _, c := range []struct {
		text  string
		value string // of the header X
		want  string // empty: bad_path
	}{
		{"/v2/{id}", "", "/v2/a%2Fb"},
		{"/v2/{rest}", "", "/v2/x%20y/z"},
		{"/v2{path}", "", "/v2/users/a%2Fb/x%20y"},
		{"{path}", "", "/users/a%2Fb/x%20y"},
		{"v2/{id}/", "", "/v2/a%2Fb/"},
		{"/static", "", "/static"},
		{"", "", "/"},

		// A value from outside is text of one segment.
		{"/t/{header.X}/x", "acme", "/t/acme/x"},
		{"/t/{header.X}/x", "a b?c#d%e/f\\g", "/t/a%20b%3Fc%23d%25e%2Ff%5Cg/x"},
		{"/t/{header.X}/x", "%2e%2e", "/t/%252e%252e/x"},
		{"/t/{header.X}/x", "a\x00b\r\n", "/t/a%00b%0D%0A/x"},
		{"/t/{header.X}/x", "ü\xff", "/t/%C3%BC%FF/x"},
		{"/t/{header.X}/x", "...", "/t/.../x"},
		{"/t/v{header.X}/x", "..", "/t/v../x"},
		{"/t/{header.X}/x", "", "/t/x"},

		// It leads nowhere else.
		{"/t/{header.X}/x", "..", ""},
		{"/t/{header.X}/x", ".", ""},
		{"/t/.{header.X}/x", ".", ""},
		{"/t/{header.X}{header.X}/x", ".", ""},
		{"/t/%2e{header.X}/x", ".", ""},
		{"/t/{header.X}", "..", ""},
		{"/{header.X}", "..", ""},
		{"/t/{header.X}/x", "../admin", ""},
		{"/t/{header.X}/x", "..\\admin", ""},
		{"/t/{header.X}/x", "a/../../admin", ""},
		{"/t/{header.X}{id}", "../", ""},

		// Nor does the result begin with two slashes.
		{"/{header.X}/evil.example", "", "/evil.example"},
		{"//{header.X}", "evil.example", "/evil.example"},
		{"{header.X}", "//evil.example", "/%2F%2Fevil.example"},
		{"/{none}/{none}/evil.example", "", "/evil.example"},
	} {
		for _, merge := range []bool{true, false} {
			x := filled(t)
			x.Request.Fields.Add("X", c.value)
			x.Listener.Paths.MergeSlashes = merge
			got, err := x.ExpandPath(template(c.text))
			if c.want == "" {
				if e := pipeline.AsError(err); e == nil || e.Word != pipeline.BadPath {
					t.Errorf("%s with %q: %q, %v", c.text, c.value, got, err)
				}
				continue
			}
			want := c.want
			if !merge && strings.Contains(c.text, "t/{header.X}/x") && c.value == "" {
				want = "/t//x"
			}
			// NUL is escaped, and then still one that no path may have.
			if strings.Contains(c.value, "\x00") {
				if e := pipeline.AsError(err); e == nil || e.Word != pipeline.BadPath {
					t.Errorf("%s with %q: %q, %v", c.text, c.value, got, err)
				}
				continue
			}
			if got != want || err != nil {
				t.Errorf("%s with %q: %q, %v; want %q", c.text, c.value, got, err, want)
			}
		}
	}
}

// Where the listener only reports paths, a rewrite refuses none that the
// listener let pass; a value from elsewhere still leads nowhere.
func TestExpandPathInReportMode(t *testing.T) {
	x := filled(t, "X: ..")
	x.Request.Path = "/a/..%2Fb"
	if got, err := x.ExpandPath(template("/v2{path}")); err == nil {
		t.Errorf("enforced: %q", got)
	}
	x.Listener.Paths.Report = true
	if got, err := x.ExpandPath(template("/v2{path}")); got != "/v2/a/..%2Fb" || err != nil {
		t.Errorf("reported: %q, %v", got, err)
	}
	if got, err := x.ExpandPath(template("/v2/{header.X}/{path}")); err == nil {
		t.Errorf("a foreign value: %q", got)
	}
}

func TestExpandURL(t *testing.T) {
	for _, c := range []struct{ text, value, want string }{
		{"/new", "", "/new"},
		{"/new/{id}?x={header.X}", "a&b=c d", "/new/a%2Fb?x=a&b=c%20d"},
		{"https://{host}{path}?{query}", "", "https://a.example/users/a%2Fb/x%20y?q"},
		{"https://example.com/{header.X}", "../x", "https://example.com/..%2Fx"},
		{"//evil.example", "", "/evil.example"},
		{"/{none}/evil.example", "", "/evil.example"},
		{`/\evil.example`, "", "/evil.example"},
		{`\\evil.example{none}`, "", "/evil.example"},
		{"relative/{id}", "", "relative/a%2Fb"},
		{"{header.X}", "//evil.example", "%2F%2Fevil.example"},
		{"/{header.X}", "\r\nSet-Cookie: a=b", "/%0D%0ASet-Cookie:%20a=b"},

		// A value is never a scheme.
		{"{header.X}", "https:evil.example", "./https:evil.example"},
		{"{header.X}", "javascript:alert(1)", "./javascript:alert%281%29"},
		{"{header.X}/a:b", "javascript", "javascript/a:b"},
		{"java{header.X}", "script:alert", "./javascript:alert"},
		{"{header.X}:{id}", "https", "./https:a%2Fb"},
		{"{query}", "", "q"},
		{"{header.X}?a:b", "x", "x?a:b"},
		{"x?{header.X}", "a:b", "x?a:b"},
		{"/{header.X}", "https:evil.example", "/https:evil.example"},
		{"https:{header.X}", "a", "https:a"},
		{"mailto:x@a.example", "", "mailto:x@a.example"},
		{"{header.X}", "", "/"},
		{"{none}{none}", "", "/"},
	} {
		x := filled(t)
		x.Request.Fields.Add("X", c.value)
		if got, err := x.ExpandURL(template(c.text)); got != c.want || err != nil {
			t.Errorf("%s with %q: %q, %v; want %q", c.text, c.value, got, err, c.want)
		}
	}
	x := filled(t)
	x.Request.Query = "?a\x01b"
	if got, err := x.ExpandURL(template("/?{query}")); pipeline.AsError(err) == nil || pipeline.AsError(err).Word != pipeline.BadRequest {
		t.Errorf("%q, %v", got, err)
	}
}

func TestStaticTemplatesDoNotAllocate(t *testing.T) {
	x, static := filled(t), template("static")
	if n := testing.AllocsPerRun(100, func() { x.ExpandText(static) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAddressOfTheClientIsPlain(t *testing.T) {
	x := pipeline.NewExchange(t.Context(), &message.Request{}, &model.Listener{}, netip.MustParseAddrPort("[::ffff:192.0.2.1%eth0]:1"), exchange(t, "").Start)
	if got := x.ExpandText(template("{client_ip}")); got != "192.0.2.1" {
		t.Errorf("got %q", got)
	}
}
