package e2e

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// h2specBinary is the conformance tests of HTTP/2.
var h2specBinary = sync.OnceValues(func() (string, error) {
	return buildPeer("github.com/summerwind/h2spec/cmd/h2spec", "h2spec")
})

// h2specCases is how many it has at least.
const h2specCases = 140

// TestH2spec has h2spec before the gateway, on each of its listeners. What it
// asks for goes through to the endpoint.
func TestH2spec(t *testing.T) {
	gw := startSite(t, peerEndpoint(t))
	spec := built(t, h2specBinary)
	for _, test := range []struct {
		listener  string
		arguments []string
	}{
		{listener: "websecure", arguments: []string{"-t", "-k"}},
		{listener: "prior"},
		{listener: "web"},
	} {
		t.Run(test.listener, func(t *testing.T) {
			t.Parallel() // most of its time is waiting
			report := filepath.Join(t.TempDir(), "report.xml")
			command := exec.CommandContext(t.Context(), spec, append(test.arguments, "-S", "-o", "10", "-h", "127.0.0.1", "-p", gw.port(t, test.listener), "-P", "/hello", "-j", report)...)
			out, err := command.CombinedOutput()
			if err != nil {
				t.Errorf("h2spec: %v\n%s", err, out)
			}
			if ran, failed := readH2spec(t, report); ran < h2specCases || failed != nil {
				t.Errorf("of %d cases %q failed\n%s", ran, failed, out)
			}
		})
	}
}

// readH2spec reads a report: how many cases ran, and those that did not pass.
func readH2spec(t *testing.T, report string) (ran int, failed []string) {
	t.Helper()
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Suites []struct {
			Cases []struct {
				Name    string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, suite := range all.Suites {
		for _, c := range suite.Cases {
			ran++
			if c.Failure != nil || c.Error != nil || c.Skipped != nil {
				failed = append(failed, c.Name)
			}
		}
	}
	return ran, failed
}

// TestCurlProtocols has curl before the gateway, by each protocol that it speaks.
func TestCurlProtocols(t *testing.T) {
	gw := startSite(t, peerEndpoint(t))
	folder, sha := peerFolder(t)
	body, err := os.ReadFile(filepath.Join(folder, "body"))
	if err != nil {
		t.Fatal(err)
	}
	stream := peerStream()
	secure := "https://" + siteHost + ":" + gw.port(t, "websecure")
	for _, way := range []struct {
		arguments, url, version string
		once                    bool // no connection serves twice: Debian's curl then fails (its fault 10634)
	}{
		{"--http1.1", secure, "1.1", false},
		{"--http2", secure, "2", false},
		{"--http2 --tls-max 1.2", secure, "2", false},
		{"--http2-prior-knowledge", gw.URL("web"), "2", true},
		{"--http2", gw.URL("web"), "1.1", false}, // it asks for an upgrade, which is no longer part of HTTP/2 (RFC 9113 3.1)
		{"--http2 --no-alpn", secure, "1.1", false},
	} {
		for _, test := range []struct {
			name      string
			arguments string
			input     bool   // the file is its standard input
			again     bool   // a connection serves more than one request
			out, told string // expressions for the whole output, and for some of what -v tells
		}{
			{name: "GET", arguments: "-w :%{http_version}:%{http_code} URL/hello", out: "hello:" + way.version + ":200"},
			{name: "a stream", arguments: "URL/stream", out: regexp.QuoteMeta(stream)},
			{name: "upload with its length", arguments: "-T body URL/sum", out: "PUT 3145728 " + sha},
			{name: "upload of unknown length", arguments: "-T - URL/sum", input: true, out: "PUT 3145728 " + sha},
			{name: "a large body waits for 100", arguments: "-v --expect100-timeout 30 -H Expect:100-continue --data-binary @body URL/sum", out: "POST 3145728 " + sha, told: "< HTTP/" + regexp.QuoteMeta(way.version) + " 100"},
			{name: "a large file", arguments: "-o file -w %{http_code}:%{size_download} URL/file", out: "200:1048576"},
			{name: "several on one connection", again: true, arguments: "-w :%{num_connects}: URL/hello URL/hello URL/stream URL/hello", out: "hello:1:hello:0:" + stream + ":0:hello:0:"},
			{name: "many at once", again: true, arguments: "-Z --parallel-max 20 URL/hello?[1-60]", out: "(hello){60}"},
			{name: "HEAD", arguments: "-I URL/file", out: `(?s)HTTP/` + regexp.QuoteMeta(way.version) + ` 200.*\r\n(?i:content-length): 1048576\r\n.*`},
			{name: "a range", arguments: "--range 1000-1999 -w %{http_code}:%{size_download} -o range URL/file", out: "206:1000"},
			{name: "a condition", arguments: `-H If-None-Match:"five" -w %{http_code}:%{size_download} URL/file`, out: "304:0"},
		} {
			if test.again && way.once {
				continue
			}
			t.Run(way.arguments+" "+way.url[:strings.IndexByte(way.url, ':')]+" "+test.name, func(t *testing.T) {
				var input io.Reader
				if test.input {
					input = bytes.NewReader(body)
				}
				arguments := []string{"-sS", "-m", "60", "--noproxy", "*", "--cacert", gw.cert, "--resolve", siteHost + ":" + gw.port(t, "websecure") + ":127.0.0.1"}
				arguments = append(arguments, strings.Fields(way.arguments)...)
				out, told := runs(t, folder, input, "curl", append(arguments, strings.Fields(strings.ReplaceAll(test.arguments, "URL", way.url))...)...)
				if !regexp.MustCompile("^(?:" + test.out + ")$").MatchString(out) {
					t.Errorf("it printed %.2000q", out)
				}
				if !regexp.MustCompile(test.told).MatchString(told) {
					t.Errorf("it told %.4000q", told)
				}
			})
		}
	}
}

// TestH2loadProtocols has h2load before the gateway: many streams on many
// connections, none of which fails.
func TestH2loadProtocols(t *testing.T) {
	gw := startSite(t, peerEndpoint(t))
	folder, _ := peerFolder(t)
	if err := os.Truncate(filepath.Join(folder, "body"), 10_000); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct{ arguments, url, protocol string }{
		{"", gw.URL("web"), "h2c"},
		{"", "https://" + gw.Addr("websecure").String(), "h2"},
		{"--h1", "https://" + gw.Addr("websecure").String(), "http/1.1"},
	} {
		for _, test := range []struct{ name, arguments string }{
			{"get", "-n 1000 -c 10 -m 50 URL/hello"},
			{"stream", "-n 100 -c 4 -m 10 URL/stream"},
			{"post", "-n 200 -c 10 -m 20 -d body URL/sum"},
			{"large", "-n 40 -c 2 -m 10 URL/file"},
			{"large, by small windows", "-n 8 -c 2 -m 4 -w 12 -W 14 URL/file"},
		} {
			t.Run(way.protocol+" "+test.name, func(t *testing.T) {
				arguments := append(strings.Fields(way.arguments), "-t", "1")
				out, _ := runs(t, folder, nil, "h2load", append(arguments, strings.Fields(strings.ReplaceAll(test.arguments, "URL", way.url))...)...)
				n := strings.Fields(test.arguments)[1]
				if want := fmt.Sprintf("requests: %[1]s total, %[1]s started, %[1]s done, %[1]s succeeded, 0 failed, 0 errored, 0 timeout\nstatus codes: %[1]s 2xx,", n); !strings.Contains(out, want) || !strings.Contains(out, "Application protocol: "+way.protocol+"\n") {
					t.Errorf("h2load says\n%s", out)
				}
			})
		}
	}
}
