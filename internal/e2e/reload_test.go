package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
	"sluice/internal/model"
)

// reloadConfig is a good configuration; extra is put at its end, where the
// routes are.
func reloadConfig(url, extra string) string {
	return fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
upstreams: {up: {endpoints: [%q]}}
routes:
  - {id: up, match: {path_prefix: /up}, upstream: up}
%s
`, url, extra)
}

// refused waits until the gateway tells of a document that it refused, in all
// three places, and returns the problem with that message.
func refused(t *testing.T, gw *gatewaytest.Gateway, failures float64, message string) model.Problem {
	t.Helper()
	var problem model.Problem
	gatewaytest.WaitFor(t, "the problem can be read: "+message, func() bool {
		var all []model.Problem
		gw.Admin("/_gateway/problems", &all)
		for _, p := range all {
			if strings.Contains(p.Message, message) {
				problem = p
				return true
			}
		}
		return false
	})
	gatewaytest.WaitFor(t, "the refusal is counted", func() bool {
		return gw.Metric("gateway_config_reloads_total", "result", "failure") > failures
	})
	gatewaytest.WaitFor(t, "the log tells", func() bool {
		for line := range strings.Lines(gw.ProcessLog()) {
			if strings.Contains(line, "configuration refused") && strings.Contains(strings.ReplaceAll(line, `\"`, `"`), message) {
				return true
			}
		}
		return false
	})
	return problem
}

func failures(gw *gatewaytest.Gateway) float64 {
	return gw.Metric("gateway_config_reloads_total", "result", "failure")
}

// TestRefusedDocuments keeps the old configuration serving through every kind
// of mistake.
func TestRefusedDocuments(t *testing.T) {
	t.Parallel() // it waits most of the time
	url := gatewaytest.NewEcho(t, "up")
	gw := gatewaytest.Start(t, reloadConfig(url, ""))
	client := gw.Dial("web")
	at := func(line int) func(model.Problem) bool { return func(p model.Problem) bool { return p.Line == line } }
	whole := at(0)
	put := func(text string) func() { return func() { gw.Write(text) } }
	extra := func(line string) func() { return put(reloadConfig(url, line)) }
	for _, test := range []struct {
		name    string
		do      func()
		message string
		place   func(model.Problem) bool
	}{
		{"an unknown key", extra("  - {id: x, match: {path: /x}, respond: {status: 200}, strip_prefx: true}"), "strip_prefx", at(7)},
		{"an unknown upstream", extra("  - {id: x, match: {path: /x}, upstream: upp}"), "upp", at(7)},
		{"an unknown middleware", extra("  - {id: x, match: {path: /x}, upstream: up, middleware: [nope]}"), "nope", at(7)},
		{"an unknown listener", extra("  - {id: x, match: {path: /x}, upstream: up, listeners: [wbe]}"), "wbe", at(7)},
		{"a wrong type", extra("  - {id: x, match: {path: /x}, upstream: up, priority: high}"), "high", at(7)},
		{"a wrong duration", extra("  - {id: x, match: {path: /x}, upstream: up, timeout: 3 parsecs}"), "parsecs", at(7)},
		{"a wrong regular expression", extra("  - {id: x, match: {path_regex: \"^/v[\"}, upstream: up}"), "path_regex", at(7)},
		{"two equal routes", extra("  - {id: x, match: {path_prefix: /up}, respond: {status: 200}}"), "up", at(7)},
		{"two routes of one name", extra("  - {id: up, match: {path: /x}, respond: {status: 200}}"), "up", at(7)},
		{"an option of middleware", extra("  - {id: x, match: {path: /x}, upstream: up, middleware: [{body_limit: {min: 1KiB}}]}"), "min", at(7)},
		{"a placeholder", extra("  - {id: x, match: {path: /x}, redirect: {to: \"/{nope}\"}}"), "nope", at(7)},
		{"an unset variable", extra("  - {id: x, match: {path: /x}, upstream: \"${NOT_SET_ANYWHERE}\"}"), "NOT_SET_ANYWHERE", at(7)},
		{"a file for a value that is not there", extra("  - {id: x, match: {path: /x}, respond: {body: \"${file:missing}\"}}"), "missing", at(7)},
		{"what comes later", extra("  - {id: x, match: {path: /x}, upstream: up, release: {steps: [5%]}}"), "not supported yet", at(7)},
		{"a key twice", put("admin: {}\n" + reloadConfig(url, "")), "admin", at(4)},
		{"no YAML", put("listeners: ["), "not valid YAML", at(1)},
		{"two documents in one file", put("admin: {}\n---\nadmin: {}\n"), "one YAML document", at(2)},
		{"an included file that is not there", put("include: [none.yaml]\n" + reloadConfig(url, "")), "none.yaml", at(1)},
		{"admin open to all", put(strings.Replace(reloadConfig(url, ""), `admin: {address: "127.0.0.1:0"}`, `admin: {address: "0.0.0.0:0"}`, 1)), "token", at(3)},
		{"an empty file", put(""), "empty", whole},
		{"no file", func() { remove(t, gw.File()) }, "does not exist", whole},
		{"a directory", func() { remove(t, gw.File()); mkdir(t, gw.File()) }, "directory", whole},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, revision := failures(gw), gw.Metric("gateway_config_revision")
			test.do()
			problem := refused(t, gw, before, test.message)
			if filepath.Base(problem.File) != "sluice.yaml" || problem.Warning || !test.place(problem) {
				t.Errorf("the problem is %+v", problem)
			}
			// The old one serves, on the same connection.
			if e := (ask{target: "/up/x"}).on(t, client).echo(t); e.Target != "/up/x" {
				t.Errorf("the endpoint was asked for %s", e.Target)
			}
			if r := (ask{target: "/x"}).on(t, client); r.word() != "no_route" {
				t.Errorf("something of the refused document serves: %d %s", r.StatusCode, r.body)
			}
			if now := gw.Metric("gateway_config_revision"); now != revision {
				t.Errorf("the revision went from %v to %v", revision, now)
			}
			if !gw.Ready() {
				t.Error("the gateway is not ready")
			}
			// A good one clears it, the same as before or another.
			if info, err := os.Stat(gw.File()); err == nil && info.IsDir() {
				remove(t, gw.File())
			}
			gw.Write(reloadConfig(url, ""))
			gatewaytest.WaitFor(t, "the problem is gone", func() bool { return len(gw.Problems()) == 0 })
			if now := gw.Metric("gateway_config_revision"); now != revision {
				t.Errorf("documents that are as before led to revision %v after %v", now, revision)
			}
			gw.Load(reloadConfig(url, "  - {id: good, match: {path: /good}, respond: {status: 204}}"))
			if r := (ask{target: "/good"}).on(t, client); r.StatusCode != 204 {
				t.Errorf("after it a good document gives %d", r.StatusCode)
			}
			gw.Load(reloadConfig(url, ""))
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestUnchangedDocuments makes no revision of documents that are the same,
// however often they are saved and read.
func TestUnchangedDocuments(t *testing.T) {
	url := gatewaytest.NewEcho(t, "up")
	gw := gatewaytest.Start(t, reloadConfig(url, ""))
	read := func() int { return strings.Count(gw.ProcessLog(), "the documents did not change") }
	for n := range 3 {
		before := read()
		gw.Write(reloadConfig(url, ""))
		gw.Reload()
		gatewaytest.WaitFor(t, fmt.Sprintf("they are read the %d. time", n), func() bool { return read() > before })
	}
	gw.Load(reloadConfig(url, "  - {id: x, match: {path: /x}, respond: {status: 204}}"))
	if revision := gw.Metric("gateway_config_revision"); revision != 2 {
		t.Errorf("the second set of documents is revision %v", revision)
	}
	var history []struct {
		Revision int
		SHA256   string
		Source   string
	}
	gw.Admin("/_gateway/config/history", &history)
	if len(history) != 2 || history[0].Revision != 2 || history[1].Revision != 1 || history[0].SHA256 == history[1].SHA256 || history[0].Source != "file" {
		t.Errorf("the history is %+v", history)
	}
}

// TestStateSurvivesReloads checks that what a reload does not touch goes on: a
// client's connection, the connection to an endpoint, the turns.
func TestStateSurvivesReloads(t *testing.T) {
	a, b := gatewaytest.NewEcho(t, "a"), gatewaytest.NewEcho(t, "b")
	config := func(n int) string {
		return fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0", limits: {headers: %[3]d}}}
admin: {address: "127.0.0.1:0"}
upstreams:
  both: {endpoints: [{url: %[1]q, weight: 5}, {url: %[2]q, weight: 2}]}
  other: {endpoints: ["http://127.0.0.1:%[4]d"]}
routes:
  - {id: both, match: {path_prefix: /both}, upstream: both, timeout: %[3]ds}
  - {id: other-%[3]d, match: {path_prefix: /other}, upstream: other}
`, a, b, 50+n, 9+n)
	}
	gw := gatewaytest.Start(t, config(0))
	conn := gw.Dial("web")
	var turns strings.Builder
	for n := range 14 {
		turns.WriteString(ask{target: "/both"}.on(t, conn).echo(t).Endpoint)
		gw.Load(config(n + 1))
	}
	// As nginx's smooth weighted round robin takes turns for weights 5 and 2.
	if got := turns.String(); got != "abaaaba"+"abaaaba" {
		t.Errorf("the turns were %s", got)
	}
	if opened := gw.Metric("gateway_upstream_connections_total", "upstream", "both", "reused", "false"); opened != 2 {
		t.Errorf("%v connections were made to two endpoints", opened)
	}
	if reused := gw.Metric("gateway_upstream_connections_total", "upstream", "both", "reused", "true"); reused != 12 {
		t.Errorf("connections were used again %v times, want 12", reused)
	}
	if open := gw.Metric("gateway_downstream_connections", "listener", "web"); open != 1 {
		t.Errorf("%v clients are connected, want the one", open)
	}
}

// TestSecretFromFile reads a value's file again when it changes.
func TestSecretFromFile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	save := func(text string) {
		t.Helper()
		if err := os.WriteFile(secret+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(secret+".new", secret); err != nil { // nobody reads half of it
			t.Fatal(err)
		}
	}
	save("first\n")
	gw := gatewaytest.Start(t, reloadConfig(gatewaytest.NewEcho(t, "up"), fmt.Sprintf(
		`  - {id: secret, match: {path: /secret}, upstream: up, middleware: [{headers: {request: {set: {Authorization: "Bearer ${file:%s}"}}}}]}`, secret)))
	sees := func() string { return ask{target: "/secret"}.on(t, gw.Dial("web")).echo(t).Header.Get("Authorization") }
	if got := sees(); got != "Bearer first" {
		t.Errorf("the endpoint sees %q", got)
	}
	revision := gw.Current().Revision.Number
	save("second\n")
	gatewaytest.WaitFor(t, "the new secret serves", func() bool { return gw.Current().Revision.Number > revision })
	if got := sees(); got != "Bearer second" {
		t.Errorf("the endpoint sees %q", got)
	}
	before := failures(gw)
	remove(t, secret)
	_ = refused(t, gw, before, "secret")
	if got := sees(); got != "Bearer second" {
		t.Errorf("without the file the endpoint sees %q", got)
	}
	save("third\n")
	gatewaytest.WaitFor(t, "the third secret serves", func() bool { return sees() == "Bearer third" })
	for _, text := range []string{"first", "second", "third"} {
		if strings.Contains(gw.ProcessLog(), text+"\n") || strings.Contains(gw.ProcessLog(), "Bearer "+text) {
			t.Errorf("the log tells the secret %q", text)
		}
	}
}

// TestCertificateThatIsMended serves documents that were refused for a file as
// soon as that is good, though nobody saves them again.
func TestCertificateThatIsMended(t *testing.T) {
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http's half has no TLS")
	}
	cert, key := selfSigned(t, "mended.test")
	good, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	save := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(cert, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save(good[:len(good)/2])
	const plain = "listeners: {web: {address: \"127.0.0.1:0\"}"
	gw := gatewaytest.Start(t, plain+"}\nadmin: {address: \"127.0.0.1:0\"}\nroutes: []\n")
	before, revision := failures(gw), gw.Current().Revision.Number
	gw.Write(fmt.Sprintf(plain+", more: {address: \"127.0.0.1:0\", tls: {certificates: [{cert: %q, key: %q}]}}}\nadmin: {address: \"127.0.0.1:0\"}\nroutes: []\n", cert, key))
	_ = refused(t, gw, before, "cert")
	save(good)
	gatewaytest.WaitFor(t, "the documents serve", func() bool { return gw.Current().Revision.Number > revision })
	var listeners []struct {
		Name         string
		Certificates []struct{ Names []string }
	}
	gw.Admin("/_gateway/listeners", &listeners)
	if len(listeners) != 2 || len(listeners[0].Certificates) != 0 || len(listeners[1].Certificates) != 1 || fmt.Sprint(listeners[1].Certificates[0].Names) != "[mended.test]" {
		t.Errorf("the listeners are %+v", listeners)
	}
}

// TestOneWorld lets an exchange end under the configuration it began with.
func TestOneWorld(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	url := gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			began <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "answer")
	}))
	config := func(n int) string {
		return reloadConfig(url, fmt.Sprintf(`  - {id: held-%[1]d, match: {path: /held}, upstream: up, middleware: [{headers: {response: {set: {X-World: "%[1]d"}}}}]}`, n))
	}
	gw := gatewaytest.Start(t, config(1))
	conn := gw.Dial("web")
	say(t, conn, "GET /held HTTP/1.1\r\nHost: x.test\r\n\r\n")
	await(t, "the request", began)
	gw.Load(config(2))
	gw.Load(reloadConfig(gatewaytest.Refused(t), "")) // nothing of it is left
	close(release)
	in := bufio.NewReader(conn)
	r := receive(t, in, "GET")
	if r.StatusCode != 200 || r.body != "answer" || r.Header.Get("X-World") != "1" {
		t.Errorf("status %d %q in world %q", r.StatusCode, r.body, r.Header.Get("X-World"))
	}
	if line := gw.LogLine(r.Header.Get("X-Request-Id")); line["route"] != "held-1" || line["upstream"] != "up" {
		t.Errorf("the log line is %v", line)
	}
	say(t, conn, "GET /held HTTP/1.1\r\nHost: x.test\r\n\r\n")
	if r := receive(t, in, "GET"); r.word() != "no_route" {
		t.Errorf("the next request gives %d %q", r.StatusCode, r.body)
	}
}

// TestRemovedEndpointDrains closes idle connections to an endpoint that is gone
// from the configuration, at once.
func TestRemovedEndpointDrains(t *testing.T) {
	closed := make(chan error, 1)
	endpoint := gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		if _, err := gatewaytest.ReadHead(in); err != nil {
			return
		}
		say(t, conn, "HTTP/1.1 204 No Content\r\n\r\n")
		_, err := in.ReadByte()
		closed <- err
	})
	gw := gatewaytest.Start(t, reloadConfig(endpoint.URL, ""))
	if r := (ask{target: "/up"}).on(t, gw.Dial("web")); r.StatusCode != 204 {
		t.Fatalf("status %d", r.StatusCode)
	}
	gw.Load(reloadConfig(gatewaytest.NewEcho(t, "other"), ""))
	if err := await(t, "the end of the idle connection", closed); !errors.Is(err, io.EOF) {
		t.Errorf("it ended with %v", err)
	}
	gatewaytest.WaitFor(t, "no connection is counted", func() bool { return gw.Metric("gateway_upstream_active_connections") == 0 })
}
