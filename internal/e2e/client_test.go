package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// ask is a request as a table has it.
type ask struct {
	method string // GET without
	target string
	host   string // x.test without
	header map[string]string
	body   string
}

// reply is a response, read to its end.
type reply struct {
	*http.Response
	body string
}

// on sends the request on a connection of its own, byte for byte as it stands,
// and returns the response.
func (a ask) on(t *testing.T, conn net.Conn) reply {
	t.Helper()
	var text strings.Builder
	method, host := a.method, a.host
	if method == "" {
		method = "GET"
	}
	if host == "" {
		host = "x.test"
	}
	text.WriteString(method + " " + a.target + " HTTP/1.1\r\nHost: " + host + "\r\n")
	for name, value := range a.header {
		text.WriteString(name + ": " + value + "\r\n")
	}
	if a.body != "" {
		text.WriteString("Content-Length: " + strconv.Itoa(len(a.body)) + "\r\n")
	}
	text.WriteString("\r\n" + a.body)
	return exchange(t, conn, method, text.String())
}

// exchange sends bytes and returns the response, which answers a request with
// this method.
func exchange(t *testing.T, conn net.Conn, method, request string) reply {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(gatewaytest.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return receive(t, bufio.NewReader(conn), method)
}

// receive reads a response to its end.
func receive(t *testing.T, in *bufio.Reader, method string) reply {
	t.Helper()
	response, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("status %d, after %q: %v", response.StatusCode, body, err)
	}
	return reply{response, string(body)}
}

// echo is what an echo endpoint saw.
func (r reply) echo(t *testing.T) gatewaytest.Echo {
	t.Helper()
	var e gatewaytest.Echo
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("no echo: status %d, %q: %v", r.StatusCode, r.body, err)
	}
	return e
}

// word is the error word of a problem document, empty where it is none.
func (r reply) word() string {
	var p problem
	if r.Header.Get("Content-Type") != "application/problem+json" || json.Unmarshal([]byte(r.body), &p) != nil {
		return ""
	}
	return p.Error
}
