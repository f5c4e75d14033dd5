package snapshot_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"sluice/internal/config"
	"sluice/internal/middleware/edit"
	"sluice/internal/middleware/limit"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func kinds() []pipeline.Kind {
	return []pipeline.Kind{edit.Headers(), limit.Body(), limit.Rate(), limit.Concurrency()}
}

// environment has a variable for each "NAME=value", and a file for each
// "/path=content".
func environment(values ...string) config.Environment {
	all := map[string]string{}
	for _, value := range values {
		name, content, _ := strings.Cut(value, "=")
		all[name] = content
	}
	return config.Environment{
		LookupEnv: func(name string) (string, bool) { value, ok := all[name]; return value, ok },
		ReadFile: func(path string) ([]byte, error) {
			if content, ok := all[path]; ok {
				return []byte(content), nil
			}
			return nil, fs.ErrNotExist
		},
	}
}

func document(name, text string) config.Document {
	return config.Document{Name: name, Dir: "/etc/sluice", Provider: "test", Data: []byte(text)}
}

const listener = "listeners: {web: {address: \":0\"}}\nadmin: {address: \"127.0.0.1:0\"}\n"

// compile compiles one document that has no problem.
func compile(t *testing.T, text string, values ...string) *snapshot.Compiled {
	t.Helper()
	compiled, _, problems := snapshot.Compile([]config.Document{document("it.yaml", text)}, kinds(), environment(values...))
	if compiled == nil {
		t.Fatal(problems)
	}
	return compiled
}

// TestProblemsAreSorted has problems that the documents show and others that
// only the routes together show, over two documents.
func TestProblemsAreSorted(t *testing.T) {
	first := document("first.yaml", listener+`routes:
  - {id: a, match: {path: /x}, respond: {status: 200}}
  - {id: b, match: {path: /x}, respond: {status: 200}}
  - {id: all, priority: 1, match: {path_prefix: /}, respond: {status: 200}}
`)
	second := document("second.yaml", `upstreams: {spare: {endpoints: ["http://127.0.0.1:1"]}}
routes:
  - {id: c, match: {path: /x}, respond: {status: 200}}
`+"\r\n")
	compiled, _, problems := snapshot.Compile([]config.Document{first, second}, kinds(), environment())
	if compiled != nil {
		t.Error("it was compiled")
	}
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%s %v %s", p.Position, p.Warning, p.Source))
	}
	want := []string{
		"first.yaml:5:5 false   - {id: b, match: {path: /x}, respond: {status: 200}}",
		"second.yaml:1:13 true upstreams: {spare: {endpoints: [\"http://127.0.0.1:1\"]}}",
		"second.yaml:3:5 false   - {id: c, match: {path: /x}, respond: {status: 200}}",
	}
	if diff := cmp.Diff(want, without(got, "first.yaml:4:5 true", "first.yaml:5:5 true", "second.yaml:3:5 true")); diff != "" {
		t.Errorf("%s", diff)
	}

	// Documents in the other order: so are the problems.
	_, _, problems = snapshot.Compile([]config.Document{second, first}, kinds(), environment())
	if !strings.HasPrefix(problems[0].File, "second") || !strings.HasPrefix(problems[len(problems)-1].File, "first") {
		t.Errorf("got %v", problems)
	}

	// With warnings only it is compiled, and they are told.
	compiled, _, problems = snapshot.Compile([]config.Document{document("it.yaml", listener+"routes:\n  - {id: all, priority: 1, listeners: [web], match: {path_prefix: /}, respond: {status: 200}}\n  - {id: buried, match: {path: /x}, respond: {status: 200}}\n")}, kinds(), environment())
	if compiled == nil || len(problems) != 1 || !problems[0].Warning || !strings.Contains(problems[0].Source, "id: buried") {
		t.Errorf("got %v", problems)
	}
	if compiled, _, problems := snapshot.Compile(nil, kinds(), environment()); compiled != nil || len(problems) != 1 {
		t.Errorf("without a document: %v", problems)
	}
}

// without drops the lines that begin with any of the prefixes: warnings of the
// same routes that the test is not about.
func without(lines []string, prefixes ...string) (kept []string) {
	for _, line := range lines {
		drop := false
		for _, prefix := range prefixes {
			drop = drop || strings.HasPrefix(line, prefix)
		}
		if !drop {
			kept = append(kept, line)
		}
	}
	return kept
}

func TestHash(t *testing.T) {
	text := listener + "routes: [{match: {path: /x}, respond: {status: 200, body: \"${BODY:-none} ${file:body.txt}\"}}]\n"
	of := func(text string, values ...string) string { return compile(t, text, values...).SHA256 }
	base := of(text, "BODY=a", "/etc/sluice/body.txt=b")
	if len(base) != 64 || base != of(text, "BODY=a", "/etc/sluice/body.txt=b", "OTHER=c") {
		t.Error("the hash of the same is another")
	}
	seen := map[string]string{base: "the same"}
	for what, hash := range map[string]string{
		"another variable":  of(text, "BODY=b", "/etc/sluice/body.txt=b"),
		"no variable":       of(text, "/etc/sluice/body.txt=b"),
		"another file":      of(text, "BODY=a", "/etc/sluice/body.txt=c"),
		"another document":  of(text+"# a comment\n", "BODY=a", "/etc/sluice/body.txt=b"),
		"values exchanged":  of(text, "BODY=b", "/etc/sluice/body.txt=a"),
		"a variable's text": of(strings.Replace(text, "${BODY:-none}", "a", 1), "/etc/sluice/body.txt=b"),
	} {
		if other, ok := seen[hash]; ok {
			t.Errorf("%s has the hash of %s", what, other)
		}
		seen[hash] = what
	}
	_, files, _ := snapshot.Compile([]config.Document{document("it.yaml", text)}, kinds(), environment("/etc/sluice/body.txt=b"))
	if diff := cmp.Diff([]string{"/etc/sluice/body.txt"}, files); diff != "" {
		t.Error(diff)
	}
	// A refused document names the files, too: one of them may be what is missing.
	compiled, files, problems := snapshot.Compile([]config.Document{document("it.yaml", text)}, kinds(), environment())
	if diff := cmp.Diff([]string{"/etc/sluice/body.txt"}, files); diff != "" || compiled != nil || !model.Refused(problems) {
		t.Errorf("%v %s", problems, diff)
	}
}

func TestTable(t *testing.T) {
	compiled := compile(t, listener+`
middleware: {tag: {headers: {response: {set: {X-A: "1"}}}}}
global: [tag]
upstreams: {users: {endpoints: ["http://127.0.0.1:1"]}}
routes:
  - {id: any, match: {}, upstream: users}
  - {id: share, priority: 101, match: {path: /s}, split: [{upstream: users, weight: 1, version: v1}, {upstream: "http://127.0.0.1:2", weight: 2}]}
  - {id: pattern, match: {path: "/u/:id"}, upstream: "http://127.0.0.1:2", middleware: [{body_limit: {max: 1}}]}
  - {id: all, priority: 7, listeners: [web], match: {hosts: [b.example.com, "*.a.example.com"], path_prefix: /p, methods: [GET, PUT], headers: {X-B: {regex: "^x$"}, X-A: "1"}, query: {q: {present: true}}, cookies: {c: {present: false}}, client_ip: [10.0.0.0/8, "::1"]}, skip: [tag], redirect: {to: "https://x/{host}", status: 301}}
`)
	rows := snapshot.Table(compiled.Router)
	type line struct {
		Priority                        int
		ID, Listeners, Match, Chain, To string
	}
	var got []line
	for _, row := range rows {
		var chain []string
		for _, step := range row.Middleware {
			chain = append(chain, step.Kind+" from "+step.From)
		}
		got = append(got, line{row.Priority, row.ID, strings.Join(row.Listeners, " "), row.Match.String(), strings.Join(chain, ", "), row.Destination})
	}
	want := []line{
		{7, "all", "web", "GET|PUT b.example.com|*.a.example.com /p/… header X-A=1 header X-B=~ ^x$ query q=(present) cookie c=(absent) from 10.0.0.0/8|::1/128", "", "redirect 301 https://x/{host}"},
		{100, "pattern", "", "/u/{id}", "headers from global tag, body_limit from route", "upstream http://127.0.0.1:2"},
		{100, "any", "", "anything", "headers from global tag", "upstream users"},
		{101, "share", "", "/s", "headers from global tag", "split 33.33% users (v1), 66.67% http://127.0.0.1:2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	text, err := json.Marshal(rows[2])
	if want := `{"id":"any","priority":100,"listeners":[],"match":{},"middleware":[{"kind":"headers","from":"global tag"}],"destination":"upstream users"}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestSchemaAndReference(t *testing.T) {
	for _, text := range [][]byte{snapshot.Schema(kinds()), snapshot.Reference(kinds())} {
		if !strings.Contains(string(text), "body_limit") || strings.Contains(string(text), "ip_filter") {
			t.Errorf("it does not have the kinds that there are: %.200s", text)
		}
	}
}
