package h2_test

import (
	"bytes"
	"crypto/tls"
	"encoding/xml"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/certtest"
)

// program finds a program that Debian packages; scripts/test-setup installs them.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed: see scripts/test-setup", name)
	}
	return path
}

func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// TestH2spec runs the conformance tests of h2spec, built from its source.
func TestH2spec(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	folder := t.TempDir()
	spec := filepath.Join(folder, "h2spec")
	run(t, "go", "-C", "../../tools/peers", "build", "-o", spec, "github.com/summerwind/h2spec/cmd/h2spec")
	certificate := certtest.SelfSigned(t, "a.example").TLS()
	for _, over := range []string{"cleartext", "TLS"} {
		t.Run(over, func(t *testing.T) {
			var wrap func(net.Conn) net.Conn
			arguments := []string{"-S", "-o", "5"}
			if over == "TLS" {
				wrap = func(inner net.Conn) net.Conn {
					return tls.Server(inner, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
				}
				arguments = append(arguments, "-t", "-k")
			}
			s := serve(t, handler(echo), wrap)
			host, port, _ := net.SplitHostPort(s.address)
			report := filepath.Join(folder, over+".xml")
			command := exec.CommandContext(t.Context(), spec, append(arguments, "-h", host, "-p", port, "-j", report)...)
			out, err := command.CombinedOutput()
			if err != nil {
				t.Errorf("h2spec: %v\n%s", err, out)
			}
			content, err := os.ReadFile(report)
			if err != nil {
				t.Fatal(err)
			}
			type suite struct {
				Tests    int `xml:"tests,attr"`
				Failures int `xml:"failures,attr"`
				Errors   int `xml:"errors,attr"`
				Skipped  int `xml:"skipped,attr"`
			}
			var all struct {
				Suites []suite `xml:"testsuite"`
			}
			if err := xml.Unmarshal(content, &all); err != nil {
				t.Fatal(err)
			}
			ran := 0
			for _, suite := range all.Suites {
				ran += suite.Tests
				if suite.Failures+suite.Errors+suite.Skipped > 0 {
					t.Errorf("%+v", suite)
				}
			}
			if ran < 140 {
				t.Errorf("only %d cases ran", ran)
			}
		})
	}
}

// TestCurl: curl's library (nghttp2) sends and takes bodies, and says Expect.
func TestCurl(t *testing.T) {
	curl := program(t, "curl")
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		_, _ = w.Write(body.Bytes())
		w.Header().Set("X-Sum", strconv.Itoa(body.Len()))
	}), nil)
	folder := t.TempDir()
	sent, got := filepath.Join(folder, "sent"), filepath.Join(folder, "got")
	whole := content(3 << 20)
	if err := os.WriteFile(sent, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, curl, "-sS", "--http2-prior-knowledge", "-w", "%{http_version} %{response_code}", "-H", "Expect: 100-continue", "-D", "-", "--data-binary", "@"+sent, "-o", got, "http://"+s.address+"/")
	if !strings.Contains(out, "HTTP/2 100") || !strings.HasSuffix(out, "2 200") || !strings.Contains(out, "x-sum: "+strconv.Itoa(len(whole))) {
		t.Error(out)
	}
	if content, err := os.ReadFile(got); err != nil || !bytes.Equal(content, whole) {
		t.Errorf("%d bytes came back, %v", len(content), err)
	}
}

// TestH2load: many streams on many connections, none lost.
func TestH2load(t *testing.T) {
	h2load := program(t, "h2load")
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		if size, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")); err == nil {
			_, _ = w.Write(make([]byte, size))
		}
	}), nil)
	for _, arguments := range []string{"-n 20000 -c 10 -m 100 /10", "-n 300 -c 4 -m 50 /1000000", "-n 300 -c 4 -m 50 -w 10 -W 12 /100000"} {
		words := strings.Fields(arguments)
		last := len(words) - 1
		out := run(t, h2load, append(words[:last:last], "http://"+s.address+words[last])...)
		want := words[1]
		if !regexp.MustCompile(`requests: ` + want + ` total, ` + want + ` started, ` + want + ` done, ` + want + ` succeeded, 0 failed`).MatchString(out) {
			t.Errorf("h2load %s: %s", arguments, out)
		}
	}
}
