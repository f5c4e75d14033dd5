package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// upgrade asks for another protocol and reads the 101.
func upgrade(t *testing.T, conn net.Conn, in *bufio.Reader, fields, early string) string {
	t.Helper()
	say(t, conn, "GET / HTTP/1.1\r\nHost: x.test\r\nConnection: Upgrade\r\n"+fields+"\r\n"+early)
	text, err := gatewaytest.ReadHead(in)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text, "HTTP/1.1 101 Switching Protocols\r\n") {
		t.Fatalf("no upgrade: %q", text)
	}
	return text
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: parley/1\r\nX-Stays: 1\r\n\r\n"

// TestTunnel changes to a protocol of its own; bytes that come with either head
// are not lost.
func TestTunnel(t *testing.T) {
	endpoint := gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		if _, err := gatewaytest.ReadHead(in); err != nil {
			return
		}
		say(t, conn, switching+"first ")
		_, _ = io.Copy(conn, in)
	})
	gw := to(t, endpoint.URL)
	conn := gw.Dial("web")
	in := bufio.NewReader(conn)
	got := headOf(t, upgrade(t, conn, in, "Upgrade: h2c, parley/1, other\r\n", "early "))
	if got.fields.Get("Upgrade") != "parley/1" || got.fields.Get("Connection") != "Upgrade" || got.fields.Get("X-Stays") != "1" || got.fields.Get("X-Request-Id") == "" {
		t.Errorf("the client got %v", got.fields)
	}
	hear(t, in, "first early ")
	for _, text := range []string{"one", "\x00\r\n\r\n", strings.Repeat("long ", 100_000)} {
		sent := make(chan error, 1)
		go func() { _, err := io.WriteString(conn, text); sent <- err }()
		hear(t, in, text)
		if err := await(t, "the write", sent); err != nil {
			t.Fatal(err)
		}
	}
	asked := headOf(t, endpoint.Received()[0])
	if asked.fields.Get("Upgrade") != "parley/1, other" || asked.fields.Get("Connection") != "Upgrade" {
		t.Errorf("the endpoint got %v", asked.fields)
	}
	conn.Close()
	line := gw.LogLine(got.fields.Get("X-Request-Id"))
	if line["status"] != 101.0 || line["bytes_in"] != 500_014.0 || line["bytes_out"] != 500_020.0 {
		t.Errorf("the log line is %v", line)
	}
}

// TestTunnelHalfClose ends each direction alone.
func TestTunnelHalfClose(t *testing.T) {
	t.Run("the client has said all", func(t *testing.T) {
		gw := to(t, gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
			if _, err := gatewaytest.ReadHead(in); err != nil {
				return
			}
			say(t, conn, switching)
			all, err := io.ReadAll(in) // to the client's end
			_, _ = fmt.Fprintf(conn, "%s, %v", all, err)
		}).URL)
		conn := gw.Dial("web")
		in := bufio.NewReader(conn)
		upgrade(t, conn, in, "Upgrade: parley/1\r\n", "")
		say(t, conn, "that was all")
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(in); err != nil || string(rest) != "that was all, <nil>" {
			t.Errorf("%q came, %v", rest, err)
		}
		gatewaytest.WaitFor(t, "the exchange is over in order", func() bool {
			lines := gw.LogLines()
			return len(lines) == 1 && lines[0]["status"] == 101.0 && (lines[0]["error"] == nil || lines[0]["error"] == "")
		})
	})
	t.Run("the endpoint has said all", func(t *testing.T) {
		heard := make(chan string, 1)
		gw := to(t, gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
			if _, err := gatewaytest.ReadHead(in); err != nil {
				return
			}
			say(t, conn, switching+"that was all")
			_ = conn.(*net.TCPConn).CloseWrite()
			all, err := io.ReadAll(in)
			heard <- fmt.Sprintf("%s, %v", all, err)
		}).URL)
		conn := gw.Dial("web")
		in := bufio.NewReader(conn)
		upgrade(t, conn, in, "Upgrade: parley/1\r\n", "")
		if rest, err := io.ReadAll(in); err != nil || string(rest) != "that was all" {
			t.Errorf("%q came, %v", rest, err)
		}
		say(t, conn, "and more")
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got := await(t, "what the endpoint heard", heard); got != "and more, <nil>" {
			t.Errorf("the endpoint heard %q", got)
		}
	})
	t.Run("the client breaks off", func(t *testing.T) {
		heard := make(chan error, 1)
		gw := to(t, gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
			if _, err := gatewaytest.ReadHead(in); err != nil {
				return
			}
			say(t, conn, switching)
			_, err := io.ReadAll(in)
			heard <- err
		}).URL)
		conn := gw.Dial("web")
		upgrade(t, conn, bufio.NewReader(conn), "Upgrade: parley/1\r\n", "")
		if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // a reset
			t.Fatal(err)
		}
		conn.Close()
		_ = await(t, "the end at the endpoint", heard) // in whatever form
		gatewaytest.WaitFor(t, "it is logged", func() bool {
			lines := gw.LogLines()
			return len(lines) == 1 && lines[0]["status"] == 101.0 && lines[0]["error"] == "client_closed"
		})
	})
	t.Run("the endpoint breaks off", func(t *testing.T) {
		gw := to(t, gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
			if _, err := gatewaytest.ReadHead(in); err != nil {
				return
			}
			say(t, conn, switching)
			_, _ = in.ReadByte()
			_ = conn.(*net.TCPConn).SetLinger(0)
		}).URL)
		conn := gw.Dial("web")
		in := bufio.NewReader(conn)
		upgrade(t, conn, in, "Upgrade: parley/1\r\n", "")
		say(t, conn, "x")
		_, _ = in.ReadByte() // the end, in whatever form
		gatewaytest.WaitFor(t, "it is logged", func() bool {
			lines := gw.LogLines()
			return len(lines) == 1 && lines[0]["status"] == 101.0 && lines[0]["error"] == "upstream_reset"
		})
	})
}

// TestTunnelIdle ends a tunnel in which nothing passes.
func TestTunnelIdle(t *testing.T) {
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
routes: [{id: all, match: {path_prefix: /}, upstream: %q, idle_timeout: 1s}]
`, gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		if _, err := gatewaytest.ReadHead(in); err == nil {
			say(t, conn, switching)
			discard(in)
		}
	}).URL))
	conn := gw.Dial("web")
	in := bufio.NewReader(conn)
	upgrade(t, conn, in, "Upgrade: parley/1\r\n", "")
	if _, err := in.ReadByte(); err == nil {
		t.Error("something came")
	}
	gatewaytest.WaitFor(t, "it is logged", func() bool {
		lines := gw.LogLines()
		return len(lines) == 1 && lines[0]["status"] == 101.0 && lines[0]["error"] == "upstream_timeout"
	})
}
