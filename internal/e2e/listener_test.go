package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// listenerConfig has these listeners and a fixed answer.
func listenerConfig(listeners, url, answer string) string {
	return fmt.Sprintf(`
listeners: {%s}
admin: {address: "127.0.0.1:0"}
routes:
  - {id: fixed, match: {path: /fixed}, respond: {body: %q}}
  - {id: up, match: {path_prefix: /}, upstream: %q}
`, listeners, answer, url)
}

func dialUnix(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// unanswered waits until nobody accepts connections at a path: a listener ends
// after the swap.
func unanswered(t *testing.T, path string) {
	t.Helper()
	gatewaytest.WaitFor(t, "nobody answers at "+path, func() bool {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// TestListenersChange adds, renames, moves and removes listeners under way.
// Unix sockets stand for ports that may be used again.
func TestListenersChange(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	url := gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		began <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "held")
	}))
	dir := gatewaytest.ShortDir(t)
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	config := func(listeners, answer string) string { return listenerConfig(listeners, url, answer) }
	fixed := func(conn net.Conn, want string) {
		t.Helper()
		if r := (ask{target: "/fixed"}).on(t, conn); r.body != want {
			t.Errorf("%q came, want %q", r.body, want)
		}
	}
	gw := gatewaytest.Start(t, config(`web: {address: "127.0.0.1:0"}`, "one"))
	client := gw.Dial("web")
	fixed(client, "one")

	// Added.
	gw.Load(config(`web: {address: "127.0.0.1:0"}, more: {address: "unix:`+first+`"}`, "two"))
	kept := dialUnix(t, first)
	fixed(kept, "two")
	fixed(client, "two")
	idle := dialUnix(t, first)
	fixed(idle, "two")

	// Renamed: the socket and its connections stay.
	gw.Load(config(`web: {address: "127.0.0.1:0"}, renamed: {address: "unix:`+first+`"}`, "three"))
	fixed(kept, "three")

	// Moved: the new address answers, the old one drains.
	held := bufio.NewReader(kept)
	say(t, kept, "GET /held HTTP/1.1\r\nHost: x.test\r\n\r\n")
	await(t, "the held request", began)
	gw.Load(config(`web: {address: "127.0.0.1:0"}, renamed: {address: "unix:`+second+`"}`, "four"))
	fixed(dialUnix(t, second), "four")
	fixed(client, "four")
	unanswered(t, first)
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("an idle connection of the old address ended with %v", err)
	}
	close(release)
	if r := receive(t, held, "GET"); r.body != "held" || !r.Close {
		t.Errorf("the held request gave %q, close %v", r.body, r.Close)
	}
	if _, err := held.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("its connection ended with %v", err)
	}

	// Removed, and added again where it was.
	gw.Load(config(`web: {address: "127.0.0.1:0"}`, "five"))
	unanswered(t, second)
	fixed(client, "five")
	gw.Load(config(`web: {address: "127.0.0.1:0"}, back: {address: "unix:`+first+`"}`, "six"))
	fixed(dialUnix(t, first), "six")
	fixed(client, "six")

	var listeners []struct{ Name, Address string }
	gw.Admin("/_gateway/listeners", &listeners)
	if len(listeners) != 2 || listeners[0].Address != gw.Addr("web").String() || listeners[1].Name != "back" || listeners[1].Address != "unix:"+first {
		t.Errorf("the listeners are %v", listeners)
	}
	gatewaytest.WaitFor(t, "the connections are counted by the listeners that took them", func() bool {
		return gw.Metric("gateway_downstream_connections", "listener", "web") == 1 && gw.Metric("gateway_downstream_connections", "listener", "more") == 0
	})
}

// TestListenerSettingsChange takes up new limits and time-outs of a listener
// for the connections that are there.
func TestListenerSettingsChange(t *testing.T) {
	url := gatewaytest.NewEcho(t, "up")
	config := func(settings string) string {
		return listenerConfig(`web: {address: "127.0.0.1:0", `+settings+`}`, url, "fixed")
	}
	gw := gatewaytest.Start(t, config("limits: {uri_bytes: 100}"))
	conn := gw.Dial("web")
	long := ask{target: "/" + strings.Repeat("x", 200)}
	if r := long.on(t, gw.Dial("web")); r.word() != "uri_too_long" {
		t.Errorf("status %d", r.StatusCode)
	}
	if r := (ask{target: "/fixed"}).on(t, conn); r.body != "fixed" || r.Close {
		t.Errorf("%q came, close %v", r.body, r.Close)
	}
	gw.Load(config("limits: {uri_bytes: 1000}, trusted_proxies: [127.0.0.1]"))
	long.header = map[string]string{"X-Request-ID": "mine"}
	if r := long.on(t, conn); r.StatusCode != 200 || r.Header.Get("X-Request-Id") != "mine" || r.Close {
		t.Errorf("status %d, id %q, close %v", r.StatusCode, r.Header.Get("X-Request-Id"), r.Close)
	}
	// Time-outs, too. The server of net/http cannot change them for a connection:
	// it ends with its next response.
	gw.Load(config("timeouts: {idle: 1s}"))
	in := bufio.NewReader(conn)
	say(t, conn, "GET /fixed HTTP/1.1\r\nHost: x.test\r\n\r\n")
	if r := receive(t, in, "GET"); r.body != "fixed" || r.Close != (gatewaytest.Engine() == gatewaytest.Standard) {
		t.Errorf("%q came, close %v", r.body, r.Close)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection ended with %v", err)
	}
	if r := (ask{target: "/fixed"}).on(t, gw.Dial("web")); r.Close {
		t.Error("a new connection closes, too")
	}
}

// TestAddressInUse refuses a configuration whole if one of its addresses cannot
// be had, and takes it once it can.
func TestAddressInUse(t *testing.T) {
	url := gatewaytest.NewEcho(t, "up")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := gatewaytest.ShortDir(t)
	good := listenerConfig(`web: {address: "127.0.0.1:0"}`, url, "good")
	gw := gatewaytest.Start(t, good)
	conn := gw.Dial("web")
	for _, test := range []struct{ name, config, message string }{
		{"a listener's", listenerConfig(fmt.Sprintf(`web: {address: "127.0.0.1:0"}, before: {address: "unix:%s/before"}, taken: {address: %q}`, dir, taken.Addr()), url, "bad"), taken.Addr().String()},
		{"a listener's in no directory", listenerConfig(fmt.Sprintf(`web: {address: "unix:%s/none/socket"}`, dir), url, "bad"), "no such file or directory"},
		{"the admin API's", strings.Replace(listenerConfig(`web: {address: "127.0.0.1:0"}`, url, "bad"), `admin: {address: "127.0.0.1:0"}`, fmt.Sprintf(`admin: {address: %q}`, taken.Addr()), 1), taken.Addr().String()},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := failures(gw)
			gw.Write(test.config)
			problem := refused(t, gw, before, test.message)
			if filepath.Base(problem.File) != "sluice.yaml" || !strings.HasPrefix(problem.Message, "cannot listen on ") {
				t.Errorf("the problem is %+v", problem)
			}
			if r := (ask{target: "/fixed"}).on(t, conn); r.body != "good" || r.Close {
				t.Errorf("%q came, close %v", r.body, r.Close)
			}
			if r := (ask{target: "/fixed"}).on(t, gw.Dial("web")); r.body != "good" {
				t.Errorf("%q came on a new connection", r.body)
			}
			if revision := gw.Metric("gateway_config_revision"); revision != 1 {
				t.Errorf("the revision is %v", revision)
			}
			// What was bound for the refused one is free again.
			unanswered(t, filepath.Join(dir, "before"))
			gw.Write(good)
			gatewaytest.WaitFor(t, "the problem is gone", func() bool { return len(gw.Problems()) == 0 })
		})
	}
	config := listenerConfig(fmt.Sprintf(`web: {address: "127.0.0.1:0"}, taken: {address: %q}`, taken.Addr()), url, "at last")
	before := failures(gw)
	gw.Write(config)
	_ = refused(t, gw, before, taken.Addr().String())
	taken.Close()
	gw.Reload()
	gatewaytest.WaitFor(t, "the address serves", func() bool { return gw.Current().Revision.Number == 2 })
	if r := (ask{target: "/fixed"}).on(t, gw.Dial("taken")); r.body != "at last" {
		t.Errorf("%q came", r.body)
	}
}

// TestAdminChanges moves the admin API and gives it a token.
func TestAdminChanges(t *testing.T) {
	url := gatewaytest.NewEcho(t, "up")
	dir := gatewaytest.ShortDir(t)
	config := func(admin string) string {
		return strings.Replace(listenerConfig(`web: {address: "127.0.0.1:0"}`, url, "fixed"), `{address: "127.0.0.1:0"}`+"\nroutes", admin+"\nroutes", 1)
	}
	gw := gatewaytest.Start(t, config(`{address: "127.0.0.1:0"}`))
	before := gw.AdminAddr().String()
	gw.Load(config(`{address: "unix:` + dir + `/admin"}`))
	if revision := gw.Metric("gateway_config_revision"); revision != 2 {
		t.Errorf("the new address tells revision %v", revision)
	}
	gatewaytest.WaitFor(t, "the old address is closed", func() bool {
		conn, err := net.Dial("tcp", before)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	gw.Load(config(`{address: "127.0.0.1:0", token: secret, public: [health]}`))
	for path, status := range map[string]int{"/_gateway/health": 200, "/_gateway/ready": 401, "/metrics": 401, "/_gateway/routes": 401} {
		if got := statusOf(t, http.DefaultClient, gw.AdminURL()+path); got != status {
			t.Errorf("%s answers %d without the token, want %d", path, got, status)
		}
	}
}
