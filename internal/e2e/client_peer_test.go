package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

const peerFile = 1 << 20 // bytes of /file

// peerGateway is a gateway in front of an endpoint with a little of everything.
func peerGateway(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	return to(t, peerEndpoint(t))
}

func peerEndpoint(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		for n := range 100 {
			fmt.Fprintf(w, "part %d\n", n)
			_ = http.NewResponseController(w).Flush()
		}
	})
	file, err := io.ReadAll(newContent(5, peerFile))
	if err != nil {
		t.Fatal(err)
	}
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"five"`)
		http.ServeContent(w, r, "file.bin", time.Time{}, bytes.NewReader(file))
	})
	mux.HandleFunc("/sum", func(w http.ResponseWriter, r *http.Request) {
		sha, size, err := sumOf(r.Body)
		if err != nil {
			return // the gateway left
		}
		fmt.Fprintf(w, "%s %d %s", r.Method, size, sha)
	})
	mux.HandleFunc("/refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	return gatewaytest.NewHTTP(t, mux)
}

// peerFolder is a folder with the file that peers send.
func peerFolder(t *testing.T) (folder, sha string) {
	t.Helper()
	folder = t.TempDir()
	content, err := io.ReadAll(newContent(9, 3<<20))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "body"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	sha, _ = sum(t, bytes.NewReader(content))
	return folder, sha
}

// peerStream is what the endpoint of peers streams.
func peerStream() (stream string) {
	for n := range 100 {
		stream += fmt.Sprintf("part %d\n", n)
	}
	return stream
}

// runs runs a program in a folder, which must succeed, and returns what it
// printed.
func runs(t *testing.T, folder string, input io.Reader, name string, arguments ...string) (out, told string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*gatewaytest.Patience)
	defer cancel()
	command := exec.CommandContext(ctx, program(t, name), arguments...)
	var stdout, stderr bytes.Buffer
	command.Dir, command.Stdin, command.Stdout, command.Stderr = folder, input, &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s\n%s", name, arguments, err, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

// TestCurl has curl before the gateway.
func TestCurl(t *testing.T) {
	gw := peerGateway(t)
	folder, sha := peerFolder(t)
	body, err := os.ReadFile(filepath.Join(folder, "body"))
	if err != nil {
		t.Fatal(err)
	}
	stream := peerStream()
	url := gw.URL("web")
	for _, test := range []struct {
		name      string
		arguments string
		input     bool   // the file is its standard input
		out, told string // expressions for the whole output, and for some of what -v tells
	}{
		{name: "GET", arguments: "URL/hello", out: "hello"},
		{name: "HTTP/1.0", arguments: "--http1.0 -w :%{http_code}:%{num_connects} URL/hello", out: "hello:200:1"},
		{name: "HTTP/1.0, a stream", arguments: "--http1.0 -v URL/stream", out: regexp.QuoteMeta(stream), told: "< HTTP/1.[01] 200 OK\r\n(< (?:[^Tt]|T[^r]).*\r\n)*< \r\n"},
		{name: "HTTP/1.0, connection kept", arguments: "--http1.0 -w :%{num_connects}: -H Connection:keep-alive URL/file URL/hello -o file -o hello", out: ":1::0:"},
		{name: "HTTP/1.0, an upload", arguments: "--http1.0 -T body URL/sum", out: "PUT 3145728 " + sha},
		{name: "upload in chunks", arguments: "-T - URL/sum", input: true, out: "PUT 3145728 " + sha, told: ""},
		{name: "upload with its length", arguments: "-T body URL/sum", out: "PUT 3145728 " + sha},
		{name: "a large body waits for 100", arguments: "-v --expect100-timeout 30 --data-binary @body URL/sum", out: "POST 3145728 " + sha, told: "> Expect: 100-continue\r\n(?s:.*)< HTTP/1.1 100 Continue\r\n"},
		{name: "in chunks, too", arguments: "-v --expect100-timeout 30 -H Expect:100-continue -H Transfer-Encoding:chunked --data-binary @body URL/sum", out: "POST 3145728 " + sha, told: "< HTTP/1.1 100 Continue\r\n"},
		{name: "an upload that is refused", arguments: "-v --expect100-timeout 30 -H Expect:100-continue --data-binary @body -w %{http_code}:%{size_upload} URL/refused", out: "403:0", told: "< HTTP/1.1 403 Forbidden\r\n"},
		{name: "several on one connection", arguments: "-w :%{num_connects}: URL/hello URL/hello URL/stream URL/hello", out: "hello:1:hello:0:" + stream + ":0:hello:0:"},
		{name: "different ones on one connection", arguments: "-w :%{num_connects}: URL/hello --next -sS -w :%{num_connects}: -I -o head URL/file --next -sS -w :%{num_connects}: --data-binary @body URL/sum --next -sS -w :%{num_connects} URL/hello", out: "hello:1::0:POST 3145728 " + sha + ":0:hello:0"},
		{name: "many at once", arguments: "-Z --parallel-max 10 URL/hello?[1-50]", out: "(hello){50}"},
		{name: "HEAD", arguments: "-I URL/file", out: `(?s)HTTP/1.1 200 OK\r\n.*Content-Length: 1048576\r\n.*`},
		{name: "a range", arguments: "--range 1000-1999 -w %{http_code}:%{size_download} -o range URL/file", out: "206:1000"},
		{name: "several ranges", arguments: "--range 0-9,100-109 -w %{http_code}:%{content_type} -o ranges URL/file", out: "206:multipart/byteranges; boundary=.*"},
		{name: "a condition", arguments: `-H If-None-Match:"five" -w %{http_code}:%{size_download} URL/file`, out: "304:0"},
		{name: "OPTIONS", arguments: "-X OPTIONS -w :%{http_code} URL/hello", out: "hello:200"},
		{name: "a form", arguments: "-F file=@body -w :%{http_code} URL/sum", out: `POST 31459\d\d [0-9a-f]+:200`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var input io.Reader
			if test.input {
				input = bytes.NewReader(body)
			}
			out, told := runs(t, folder, input, "curl", append([]string{"-sS", "-m", "60"}, strings.Fields(strings.ReplaceAll(test.arguments, "URL", url))...)...)
			if !regexp.MustCompile("^(?:" + test.out + ")$").MatchString(out) {
				t.Errorf("it printed %.2000q", out)
			}
			if !regexp.MustCompile(test.told).MatchString(told) {
				t.Errorf("it told %.4000q", told)
			}
		})
	}
}

// TestWrk has wrk before the gateway: with GET, POST, and pipelines.
func TestWrk(t *testing.T) {
	gw := peerGateway(t)
	folder := t.TempDir()
	for _, test := range []struct{ name, script string }{
		{"get", `wrk.path = "/hello"`},
		{"post", "wrk.method, wrk.path, wrk.body = \"POST\", \"/sum\", string.rep(\"x\", 10000)"},
		{"pipeline", "local all\ninit = function() local r = {} for n = 1, 8 do r[n] = wrk.format(nil, n % 2 == 0 and \"/hello\" or \"/stream\") end all = table.concat(r) end\nrequest = function() return all end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(folder, test.name+".lua")
			if err := os.WriteFile(file, []byte(test.script+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, _ := runs(t, folder, nil, "wrk", "-t", "1", "-c", "16", "-d", "1s", "-s", file, gw.URL("web"))
			count := regexp.MustCompile(`(\d+) requests in `).FindStringSubmatch(out)
			if count == nil || strings.Contains(out, "Non-2xx") || strings.Contains(out, "Socket errors") {
				t.Fatalf("wrk says\n%s", out)
			}
			if n, err := strconv.Atoi(count[1]); err != nil || n < 20 {
				t.Errorf("only %s requests were answered", count[1])
			}
		})
	}
}

// TestH2load has h2load before the gateway, in its mode for HTTP/1.1.
func TestH2load(t *testing.T) {
	gw := peerGateway(t)
	folder, _ := peerFolder(t)
	if err := os.Truncate(filepath.Join(folder, "body"), 10_000); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, arguments string }{
		{"get", "-n 1000 -c 16 URL/hello"},
		{"stream", "-n 100 -c 16 URL/stream"},
		{"post", "-n 500 -c 16 -d body URL/sum"},
		{"pipeline", "-n 1000 -c 8 -m 10 URL/hello"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _ := runs(t, folder, nil, "h2load", append([]string{"--h1", "-t", "1"}, strings.Fields(strings.ReplaceAll(test.arguments, "URL", gw.URL("web")))...)...)
			n := strings.Fields(test.arguments)[1]
			if want := fmt.Sprintf("requests: %[1]s total, %[1]s started, %[1]s done, %[1]s succeeded, 0 failed, 0 errored, 0 timeout\nstatus codes: %[1]s 2xx,", n); !strings.Contains(out, want) {
				t.Errorf("h2load says\n%s", out)
			}
		})
	}
}

// TestPython has Python's http.client before the gateway.
func TestPython(t *testing.T) {
	gw := peerGateway(t)
	folder, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if out, told := runs(t, folder, nil, "python3", "-B", "client.py", gw.Addr("web").String()); out != "ok\n" {
		t.Errorf("it printed %q and %q", out, told)
	}
}

// peerAsk is what a client asks of the endpoint, and what it gets.
type peerAsk struct {
	method, path string
	size         int64 // of the body; -1: not told
	expect       bool
	status       int
	body         string
}

// TestGoClient has Go's client before the gateway.
func TestGoClient(t *testing.T) {
	gw := peerGateway(t)
	client := ownClient(t)
	client.Transport.(*http.Transport).ExpectContinueTimeout = gatewaytest.Patience
	dialed := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			dialed++
		}
	}})
	want, _ := sum(t, newContent(6, 3<<20))
	for n, test := range []peerAsk{
		{method: "GET", path: "/hello", status: 200, body: "hello"},
		{method: "POST", path: "/sum", size: 3 << 20, status: 200, body: "POST 3145728 " + want},
		{method: "PUT", path: "/sum", size: -1, status: 200, body: "PUT 3145728 " + want},
		{method: "POST", path: "/sum", size: 3 << 20, expect: true, status: 200, body: "POST 3145728 " + want},
		{method: "POST", path: "/sum", size: -1, expect: true, status: 200, body: "POST 3145728 " + want},
		{method: "HEAD", path: "/file", status: 200},
		{method: "DELETE", path: "/hello", status: 200, body: "hello"},
		{method: "GET", path: "/none", status: 404, body: "404 page not found\n"},
		{method: "GET", path: "/hello", status: 200, body: "hello"},
		// The last: what was not sent ends the connection.
		{method: "POST", path: "/refused", size: 3 << 20, expect: true, status: 403},
	} {
		var body io.Reader
		if test.size != 0 {
			body = newContent(6, 3<<20)
		}
		request, err := http.NewRequestWithContext(ctx, test.method, gw.URL("web")+test.path, body)
		if err != nil {
			t.Fatal(err)
		}
		if body != nil {
			request.ContentLength = test.size
		}
		if test.expect {
			request.Header.Set("Expect", "100-continue")
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != test.status || string(got) != test.body {
			t.Errorf("request %d: status %d %q, %v; want %d %q", n, response.StatusCode, got, err, test.status, test.body)
		}
	}
	if dialed != 1 {
		t.Errorf("%d connections were made", dialed)
	}
}
