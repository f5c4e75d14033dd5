package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/server"
)

// bare returns a listener that is not started.
func bare(address string, o server.Options) *server.Listener {
	m := defaults()
	m.Address = address
	return server.Acquire(new(lease.Registry).NewSet(), m, o)
}

func TestStartFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	directory := t.TempDir()
	file := filepath.Join(directory, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	answering := filepath.Join(directory, "answering")
	other, err := net.Listen("unix", answering)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	refusing := func(err error) func(string, string) (net.Listener, error) {
		return func(network, address string) (net.Listener, error) {
			return nil, &net.OpError{Op: "listen", Net: network, Err: err}
		}
	}
	tests := []struct {
		name    string
		address string
		listen  func(network, address string) (net.Listener, error)
		want    string
		is      error
	}{
		{"taken", taken.Addr().String(), nil, "cannot listen on " + taken.Addr().String() + ": address already in use", syscall.EADDRINUSE},
		{"no privilege", ":80", refusing(os.NewSyscallError("bind", syscall.EACCES)), "cannot listen on :80: permission denied (ports below 1024 and some directories need a privilege)", syscall.EACCES},
		{"not our address", "192.0.2.1:80", refusing(os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)), "cannot listen on 192.0.2.1:80: cannot assign requested address", syscall.EADDRNOTAVAIL},
		{"another reason", ":80", refusing(&net.AddrError{Err: "odd", Addr: "x"}), "cannot listen on :80: address x: odd", nil},
		{"a bare error", ":80", func(string, string) (net.Listener, error) { return nil, fs.ErrInvalid }, "cannot listen on :80: invalid argument", fs.ErrInvalid},
		{"no such directory", "unix:" + directory + "/none/socket", nil, "cannot listen on unix:" + directory + "/none/socket: no such file or directory", syscall.ENOENT},
		{"a file in the way", "unix:" + file, nil, "cannot listen on unix:" + file + ": " + file + " is there and is not a socket: address already in use", syscall.EADDRINUSE},
		{"somebody answers", "unix:" + answering, nil, "cannot listen on unix:" + answering + ": address already in use", syscall.EADDRINUSE},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := bare(test.address, server.Options{Listen: test.listen}).Start()
			if err == nil || err.Error() != test.want || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v", err)
			}
		})
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file in the way: %q, %v", text, err)
	}
	if conn, err := net.Dial("unix", answering); err != nil {
		t.Errorf("the other's socket: %v", err)
	} else {
		conn.Close()
	}
}

func onSocket(path string) func(*model.Listener) {
	return func(m *model.Listener) { m.Address = "unix:" + path }
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	f := start(t, func(x *pipeline.Exchange) error {
		if x.Peer.IsValid() || x.ClientIP.IsValid() {
			t.Errorf("peer %v", x.Peer)
		}
		x.Response = reply(200, "ok")
		return nil
	}, onSocket(path))
	if response, body := f.dial().send(get("/")).answer("GET"); body != "ok" || response.Close {
		t.Errorf("%q", body)
	}
	if status := f.listener.Status(); status.Address != "unix:"+path {
		t.Errorf("%+v", status)
	}
	f.listener.Release()
	if exists(path) {
		t.Error("the file is left over")
	}
}

func TestTunnelOverAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	f, endpoint := tunnelled(t, onSocket(path))
	c := f.dial().send(upgrade)
	c.read(upgraded)
	c.send("up")
	endpoint.read("up")
	c.closeWrite()
	endpoint.rest()
	endpoint.send("down").Close()
	if rest := c.rest(); rest != "down" {
		t.Errorf("%q", rest)
	}
	f.next(t)
}

func TestAStaleSocketIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	f := start(t, text("ok"), onSocket(path))
	if _, body := f.dial().send(get("/")).answer("GET"); body != "ok" {
		t.Errorf("%q", body)
	}
}

func TestAnotherProcessesSocketStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	f := start(t, text("ok"), onSocket(path))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f.listener.Release()
	if !exists(path) {
		t.Error("the other's file is gone")
	}
}

func TestAnAbstractSocketHasNoFile(t *testing.T) {
	name := "@sluice-test-" + strings.ReplaceAll(t.TempDir(), "/", "-")
	f := start(t, text("ok"), onSocket(name))
	if _, body := f.dial().send(get("/")).answer("GET"); body != "ok" {
		t.Errorf("%q", body)
	}
	if status := f.listener.Status(); status.Address != name {
		t.Errorf("%+v", status)
	}
}

// The socket goes from one listener to the next, as between two processes: a
// connection that comes meanwhile is served by either.
func TestHandOver(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "socket")
			edit := func(m *model.Listener) {}
			if network == "unix" {
				edit = onSocket(path)
			}
			before := start(t, text("before"), edit)
			file, err := before.listener.File()
			if err != nil {
				t.Fatal(err)
			}
			after := startWith(t, server.Options{Listen: func(string, string) (net.Listener, error) {
				defer file.Close()
				return net.FileListener(file)
			}}, text("after"), edit)
			if a, b := before.listener.Addr(), after.listener.Addr(); a.String() != b.String() {
				t.Fatalf("%v became %v", a, b)
			}
			if err := before.listener.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			if _, body := after.dial().send(get("/")).answer("GET"); body != "after" {
				t.Errorf("%q", body)
			}
			if network == "tcp" {
				return
			}
			if !exists(path) {
				t.Error("the file went with the old process")
			}
			after.listener.Release()
			if exists(path) {
				t.Error("the file is left over")
			}
		})
	}
}

func TestFileNeedsASocket(t *testing.T) {
	if _, err := bare("127.0.0.1:0", server.Options{}).File(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// A socket file that is gone when the listener ends, and one that was gone when
// it began, are nobody's trouble.
func TestSocketFilesThatAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l := bare("unix:"+path, server.Options{Listen: func(network, address string) (net.Listener, error) {
		inner, err := net.Listen(network, address)
		if err == nil {
			err = os.Remove(path)
		}
		return inner, err
	}})
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	l = bare("unix:"+path, server.Options{})
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStatusAsJSON(t *testing.T) {
	f := start(t, text("ok"))
	got, err := json.Marshal(f.listener.Status())
	if want := `{"name":"web","address":"` + f.listener.Addr().String() + `","connections":0,"tunnels":0,"refused":0,"failed":0}`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestSocketOptionsOfTheAdapter(t *testing.T) {
	ofAdapter(t, "the engine's driver accepts")
	accepted := make(chan net.Conn, 1)
	f := startWith(t, server.Options{Listen: func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return spy{l, accepted}, err
	}}, text("ok"))
	f.dial().send(get("/")).answer("GET")
	raw, err := (<-accepted).(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(descriptor uintptr) { socketOptions(t, descriptor) }); err != nil {
		t.Error(err)
	}
}

func TestSocketOptionsOfTheEngine(t *testing.T) {
	driver := newStaged(t)
	driver.accepted = func(c netloop.Conn) {
		if err := c.Control(func(descriptor uintptr) { socketOptions(t, descriptor) }); err != nil {
			t.Error(err)
		}
	}
	startWith(t, server.Options{Driver: driver}, text("ok")).dial().send(get("/")).answer("GET")
}

func socketOptions(t *testing.T, descriptor uintptr) {
	t.Helper()
	for name, option := range map[string][2]int{"keepalive": {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE}, "no delay": {syscall.IPPROTO_TCP, syscall.TCP_NODELAY}} {
		if value, err := syscall.GetsockoptInt(int(descriptor), option[0], option[1]); err != nil || value == 0 {
			t.Errorf("%s is %d, %v", name, value, err)
		}
	}
}

// spy shows the connections that are accepted.
type spy struct {
	net.Listener
	accepted chan net.Conn
}

func (s spy) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err == nil {
		select {
		case s.accepted <- conn:
		default:
		}
	}
	return conn, err
}
