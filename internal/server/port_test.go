package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"sluice/internal/lease"
	"sluice/internal/netloop"
	"sluice/internal/server"
	"sluice/internal/sockettest"
	"sluice/internal/waittest"
)

// gateway is a listener whose address changes, as by reloads.
type gateway struct {
	*testing.T
	ports    server.Ports
	registry lease.Registry
	service  *service
	driver   netloop.Driver
	set      *lease.Set
	listener *server.Listener
	old      []*server.Listener
}

// load listens on an address instead of the one before. Where more is given, it
// is another address, which cannot be listened on: all stays as it is.
func (g *gateway) load(address, more string) {
	g.Helper()
	m := defaults()
	m.Address = address
	set := g.registry.NewSet()
	options := server.Options{Service: g.service, Listen: g.ports.Listen, Driver: g.driver}
	listener := server.Acquire(set, m, options)
	g.ports.Expect([]string{address, more})
	if more != "" {
		taken := defaults()
		taken.Address = more
		server.Acquire(set, taken, options)
		if err := set.Commit(); !errors.Is(err, syscall.EADDRINUSE) {
			g.Fatalf("from %s to %s: %v", g.listener.Status().Address, address, err)
		}
		g.old = append(g.old, listener)
		set.Release()
		return
	}
	if err := set.Commit(); err != nil {
		g.Fatalf("to %s: %v", address, err)
	}
	listener.Serve(m, nil)
	if g.set != nil {
		g.old = append(g.old, g.listener)
		g.set.Release()
	}
	g.set, g.listener = set, listener
}

// asking sends requests to an address until its end, on connections that are kept
// and on new ones. None may fail.
type asking struct {
	stop   atomic.Bool
	served atomic.Int64
	group  sync.WaitGroup
}

func (a *asking) start(t *testing.T, address string) {
	t.Helper()
	for i := range 4 {
		a.group.Go(func() {
			transport := &http.Transport{DisableKeepAlives: i%2 == 0}
			defer transport.CloseIdleConnections()
			for !a.stop.Load() {
				// A method that no client tries again by itself.
				request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+address+"/", strings.NewReader("x"))
				if err != nil {
					t.Error(err)
					return
				}
				response, err := transport.RoundTrip(request)
				if err != nil {
					t.Error(err)
					return
				}
				if body, err := io.ReadAll(response.Body); err != nil || string(body) != "ok" {
					t.Errorf("%q, %v", body, err)
				}
				response.Body.Close()
				a.served.Add(1)
			}
		})
	}
}

// more waits until more than n others were served.
func (a *asking) more(t *testing.T, n int64) {
	t.Helper()
	before := a.served.Load()
	waittest.Until(t, "more requests", func() bool { return a.served.Load() > before+n || t.Failed() })
}

// end returns when nothing is asked any more.
func (a *asking) end() {
	a.stop.Store(true)
	a.group.Wait()
}

// TestAddressChangesOnItsPort widens and narrows the address of a listener under
// load: no request fails, also where the change is refused for another reason.
// Another process cannot have the port at any time.
func TestAddressChangesOnItsPort(t *testing.T) {
	for name, test := range map[string]struct {
		host  string
		hosts []string
	}{
		"IPv4": {"127.0.0.1", []string{"127.0.0.1", "0.0.0.0", "127.0.0.1", "", "0.0.0.0", "", "127.0.0.1", "localhost", "127.0.0.1"}},
		"IPv6": {"::1", []string{"::1", "::", "::1", "", "::1"}},
	} {
		t.Run(name, func(t *testing.T) {
			port := sockettest.FreePort(t, test.host)
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer taken.Close()
			g := &gateway{T: t, service: newService(text("ok")), driver: newDriver(t)}
			g.load(net.JoinHostPort(test.hosts[0], port), "")
			defer func() {
				for _, l := range append(g.old, g.listener) {
					if err := l.Shutdown(context.Background()); err != nil {
						t.Error(err)
					}
				}
			}()
			var requests asking
			requests.start(t, net.JoinHostPort(test.host, port))
			defer requests.end()
			var other server.Ports
			for _, host := range test.hosts[1:] {
				address := net.JoinHostPort(host, port)
				requests.more(t, 20)
				g.load(address, taken.Addr().String())
				requests.more(t, 20)
				g.load(address, "")
				for _, wanted := range []string{test.host, host, test.hosts[1]} {
					if l, err := other.Listen("tcp", net.JoinHostPort(wanted, port)); !errors.Is(err, syscall.EADDRINUSE) {
						if err == nil {
							l.Close()
						}
						t.Errorf("another process listens on %q beside %q: %v", wanted, host, err)
					}
				}
			}
			requests.more(t, 20)
		})
	}
}

// TestPortsOfOneSnapshot: two names for one address are no change of it.
func TestPortsOfOneSnapshot(t *testing.T) {
	var p server.Ports
	port := sockettest.FreePort(t, "127.0.0.1")
	addresses := []string{"127.0.0.1:" + port, "localhost:" + port, "0.0.0.0:" + port}
	p.Expect(addresses)
	l, err := p.Listen("tcp", addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, address := range addresses {
		if same, err := p.Listen("tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
			if err == nil {
				same.Close()
			}
			t.Errorf("%s beside %s: %v", address, addresses[0], err)
		}
	}
	p.Expect(addresses[2:])
	wide, err := p.Listen("tcp", addresses[2])
	if err != nil {
		t.Fatalf("instead of what is about to close: %v", err)
	}
	wide.Close()
}

// TestPortsOfAForeignProcess: where another process has the port of another
// address, nothing is shared with it.
func TestPortsOfAForeignProcess(t *testing.T) {
	var own, foreign server.Ports
	port := sockettest.FreePort(t, "0.0.0.0")
	one, err := own.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := foreign.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skipf("no second address here: %v", err)
	}
	defer two.Close()
	own.Expect([]string{"0.0.0.0:" + port})
	if wide, err := own.Listen("tcp", "0.0.0.0:"+port); !errors.Is(err, syscall.EADDRINUSE) {
		if err == nil {
			wide.Close()
		}
		t.Errorf("%v", err)
	}
	if _, err := own.Listen("tcp", "nowhere.invalid:"+port); err == nil || errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
}

// TestPart: who connects between the last look at a socket and its end gets
// through to the one that takes its place.
func TestPart(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no filter here")
	}
	var p server.Ports
	port := sockettest.FreePort(t, "127.0.0.1")
	narrow, err := server.Bind("127.0.0.1:"+port, p.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer narrow.Listener().Close()
	p.Expect([]string{"0.0.0.0:" + port})
	wide, err := server.Bind("0.0.0.0:"+port, p.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Listener().Close()
	before, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	narrow.Part(t.Context())
	if accepted, err := narrow.Listener().Accept(); err != nil || accepted.RemoteAddr().String() != before.LocalAddr().String() {
		t.Fatalf("who had connected is not there: %v", err)
	} else {
		accepted.Close()
	}
	connected := make(chan error, 1)
	go func() {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			defer conn.Close()
			_, err = io.ReadAll(conn)
		}
		connected <- err
	}()
	waittest.Until(t, "an attempt", func() bool { return begins(t, port) })
	narrow.Listener().Close()
	accepted, err := wide.Listener().Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted.Close()
	if err := <-connected; err != nil {
		t.Errorf("who connected meanwhile: %v", err)
	}
}

// begins tells whether a client has sent the first packet of a connection to a
// port, and has no answer.
func begins(t *testing.T, port string) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(table), fmt.Sprintf(":%04X 02 ", number)) // SYN_SENT
}
