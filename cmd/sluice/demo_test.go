package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

var (
	demoURL    = regexp.MustCompile(`http://127\.0\.0\.1:(\d+)(/\S*)`)
	demoHeader = regexp.MustCompile(`-H '([^:]+): ([^']*)'`)
)

// TestDemo takes the ports that a demonstration likes best, and then tries
// everything that it says.
func TestDemo(t *testing.T) {
	for _, address := range []string{"127.0.0.1:8080", "127.0.0.1:9901"} {
		if listener, err := net.Listen("tcp", address); err == nil { // else another one has it, which is as good
			t.Cleanup(func() { listener.Close() })
		}
	}
	demo := start(t, t.TempDir(), "demo")
	gatewaytest.WaitFor(t, "the demonstration says what to try", func() bool {
		return strings.Contains(demo.out(), "Ctrl-C ends it.\n")
	})
	client := httpClient(t)
	want := map[string]int{"/users/42": 200, "/orders/7": 200, "/events": 200, "/customers/42": 308, "/upload": 413, "/nowhere": 404, "/_gateway/explain?url=/orders/7": 200, "/metrics": 200, "/": 200}
	seen := map[string]bool{}
	for line := range strings.Lines(demo.out()) {
		found := demoURL.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		port, target := found[1], strings.Trim(found[2], "'")
		if port == "8080" || port == "9901" {
			t.Errorf("a port that is taken: %s", line)
		}
		request, err := http.NewRequest("GET", "http://127.0.0.1:"+port+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if header := demoHeader.FindStringSubmatch(line); header != nil {
			request.Header.Set(header[1], header[2])
		}
		if strings.Contains(line, " -d ") {
			request.Method, request.Body, request.ContentLength = "POST", io.NopCloser(strings.NewReader(strings.Repeat("x", 2000))), 2000
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if response.StatusCode != want[target] {
			t.Errorf("%s: status %d, want %d", line, response.StatusCode, want[target])
		}
		switch {
		case target == "/events":
			if event, err := bufio.NewReader(response.Body).ReadString('\n'); event != "data: tick 1\n" {
				t.Errorf("the first event is %q, %v", event, err)
			}
		case request.Header.Get("X-Preview") != "":
			if body, err := io.ReadAll(response.Body); !strings.Contains(string(body), `"version":"v2"`) {
				t.Errorf("a preview answers %s, %v", body, err)
			}
		case target == "/users/42" && response.Header.Get("X-User") != "42":
			t.Errorf("X-User is %q", response.Header.Get("X-User"))
		case target == "/orders/7" && response.Header.Get("X-Backend-Version") == "":
			t.Error("X-Backend-Version is missing")
		}
		response.Body.Close()
		seen[target] = true
	}
	if len(seen) != len(want) {
		t.Errorf("it says to try %v", seen)
	}
	if strings.Contains(demo.log(), "level=") {
		t.Errorf("the demonstration logs\n%s", demo.log())
	}
	demo.signal(os.Interrupt)
	if code := demo.exit(); code != 0 {
		t.Errorf("exit status %d after Ctrl-C", code)
	}
}
