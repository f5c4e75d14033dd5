package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

const fileBytes = 16 << 20

// sums is an HTTP service that tells the sum of what it is sent, and has a file
// to download.
func sums(t *testing.T) string {
	t.Helper()
	return gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/file" {
			w.Header().Set("Content-Length", fmt.Sprint(fileBytes))
			_, _ = io.Copy(w, newContent(7, fileBytes))
			return
		}
		sha, size, err := sumOf(r.Body)
		if err != nil {
			return // the gateway left
		}
		fmt.Fprintf(w, "%s %d %s", r.Method, size, sha)
	}))
}

// fetch sends a request and returns the response with its body read.
func fetch(t *testing.T, client *http.Client, method, url string, size int64, body io.Reader, fields ...string) reply {
	t.Helper()
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		request.ContentLength = size
	}
	for i := 0; i < len(fields); i += 2 {
		request.Header.Set(fields[i], fields[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: after %d bytes: %v", method, url, len(text), err)
	}
	return reply{response, string(text)}
}

// ownClient is a client whose connections end with the test.
func ownClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: gatewaytest.Patience}
}

// TestNginxUpstream has a real nginx behind the gateway.
func TestNginxUpstream(t *testing.T) {
	server := startNginx(t, `
    add_header X-Connection "$connection $connection_requests" always;
    location = /hello { return 200 "hello"; }
    location = /few { keepalive_requests 5; return 200 "few"; }
    location /small/ { client_max_body_size 1k; }
    location /stored/ { create_full_put_path on; }
`)
	gw := to(t, server.url)
	client := ownClient(t)
	place := func(r reply) (connection, requests int) {
		t.Helper()
		if _, err := fmt.Sscan(r.Header.Get("X-Connection"), &connection, &requests); err != nil {
			t.Fatalf("status %d without its connection: %v", r.StatusCode, err)
		}
		return connection, requests
	}

	t.Run("one connection is used again", func(t *testing.T) {
		first, before := place(fetch(t, client, "GET", gw.URL("web")+"/hello", 0, nil))
		for n := 1; n <= 50; n++ {
			method := oneAfterAnother(n, "GET", "POST", "HEAD")
			r := fetch(t, client, method, gw.URL("web")+"/hello", 0, nil)
			if connection, requests := place(r); r.StatusCode != 200 || connection != first || requests != before+n {
				t.Fatalf("request %d: status %d, the %d. on connection %d, not on %d", n, r.StatusCode, requests, connection, first)
			}
		}
	})
	t.Run("connections that end after some requests", func(t *testing.T) {
		connections := map[int]bool{}
		for n := range 50 {
			r := fetch(t, client, oneAfterAnother(n, "GET", "POST"), gw.URL("web")+"/few", 0, nil)
			connection, requests := place(r)
			connections[connection] = true
			if r.StatusCode != 200 || r.body != "few" || requests > 5 && n > 0 {
				t.Fatalf("request %d: status %d %q, the %d. on its connection", n, r.StatusCode, r.body, requests)
			}
		}
		if len(connections) < 10 {
			t.Errorf("only %d connections", len(connections))
		}
	})
	t.Run("large bodies", func(t *testing.T) {
		url := gw.URL("web") + "/stored/large"
		want, _ := sum(t, newContent(3, fileBytes))
		for _, size := range []int64{fileBytes, -1} {
			if r := fetch(t, client, "PUT", url, size, newContent(3, fileBytes)); r.StatusCode != 201 && r.StatusCode != 204 {
				t.Fatalf("status %d %q", r.StatusCode, r.body)
			}
			r := fetch(t, client, "GET", url, 0, nil)
			if sha, n := sum(t, strings.NewReader(r.body)); sha != want || n != fileBytes {
				t.Errorf("%d bytes came back with %s", n, sha)
			}
		}
		whole := fetch(t, client, "GET", url, 0, nil)
		if r := fetch(t, client, "GET", url, 0, nil, "Range", "bytes=1000000-1999999"); r.StatusCode != 206 || r.body != whole.body[1000000:2000000] {
			t.Errorf("a range has status %d and %d bytes", r.StatusCode, len(r.body))
		}
		if r := fetch(t, client, "HEAD", url, 0, nil); r.StatusCode != 200 || r.ContentLength != fileBytes {
			t.Errorf("HEAD tells status %d and %d bytes", r.StatusCode, r.ContentLength)
		}
		if r := fetch(t, client, "GET", url, 0, nil, "If-None-Match", whole.Header.Get("ETag")); r.StatusCode != 304 || r.body != "" {
			t.Errorf("a condition has status %d and %d bytes", r.StatusCode, len(r.body))
		}
	})
	t.Run("413 while the body comes", func(t *testing.T) { refusedEarly(t, gw) })
}

// oneAfterAnother picks from a list by turns.
func oneAfterAnother(n int, list ...string) string { return list[n%len(list)] }

// refusedEarly sends bodies that are refused while they still come. Each must be
// told so, and whoever asks next is served.
func refusedEarly(t *testing.T, gw *gatewaytest.Gateway) {
	t.Helper()
	for _, test := range []struct {
		name, fields string
		in           bool // in chunks
		waits        bool // for 100, and is refused instead
	}{
		{name: "with Content-Length", fields: "Content-Length: 1000000000\r\n"},
		{name: "in chunks", fields: "Transfer-Encoding: chunked\r\n", in: true},
		{name: "that waits to be wanted", fields: "Content-Length: 1000000000\r\nExpect: 100-continue\r\n", waits: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := gw.Dial("web")
			say(t, conn, "PUT /small/x HTTP/1.1\r\nHost: x.test\r\n"+test.fields+"\r\n")
			stopped := make(chan struct{})
			go func() { // until the gateway closes
				defer close(stopped)
				block := bytes.Repeat([]byte("x"), 64<<10)
				if test.in {
					block = fmt.Appendf(nil, "%x\r\n%s\r\n", len(block), block)
				}
				for !test.waits {
					if _, err := conn.Write(block); err != nil {
						return
					}
				}
			}()
			r := receive(t, bufio.NewReader(conn), "PUT")
			if r.StatusCode != 413 {
				t.Errorf("status %d %q", r.StatusCode, r.body)
			}
			if !test.waits {
				await(t, "the end of the connection", stopped)
			}
			if line := gw.LogLine(r.Header.Get("X-Request-ID")); line["status"] != 413.0 {
				t.Errorf("the log line is %v", line)
			}
			if r := (ask{target: "/hello"}).on(t, gw.Dial("web")); r.StatusCode != 200 || r.body != "hello" {
				t.Errorf("the next request has status %d %q", r.StatusCode, r.body)
			}
		})
	}
}

// TestHAProxyUpstream has a real HAProxy behind the gateway.
func TestHAProxyUpstream(t *testing.T) {
	endpoint := sums(t)
	gw := to(t, startHAProxy(t, `
  http-request return status 200 content-type text/plain string hello if { path /hello }
  http-request deny deny_status 413 if { path_beg /small/ }
`, endpoint))
	client := ownClient(t)

	t.Run("one connection is used again", func(t *testing.T) {
		var first string
		for n := range 50 {
			r := fetch(t, client, oneAfterAnother(n, "GET", "POST", "HEAD"), gw.URL("web")+"/hello", 0, nil)
			port := r.Header.Get("X-Port")
			if n == 0 {
				first = port
			}
			if r.StatusCode != 200 || port == "" || port != first {
				t.Fatalf("request %d: status %d, on the connection from %s, not %s", n, r.StatusCode, port, first)
			}
		}
	})
	t.Run("large bodies", func(t *testing.T) {
		want, _ := sum(t, newContent(7, fileBytes))
		for _, size := range []int64{fileBytes, -1} {
			r := fetch(t, client, "POST", gw.URL("web")+"/sum", size, newContent(7, fileBytes))
			if told := fmt.Sprintf("POST %d %s", fileBytes, want); r.StatusCode != 200 || r.body != told {
				t.Errorf("status %d %q, want %q", r.StatusCode, r.body, told)
			}
		}
		r := fetch(t, client, "GET", gw.URL("web")+"/file", 0, nil)
		if sha, n := sum(t, strings.NewReader(r.body)); sha != want || n != fileBytes {
			t.Errorf("%d bytes came back with %s", n, sha)
		}
	})
	t.Run("413 while the body comes", func(t *testing.T) { refusedEarly(t, gw) })
}
