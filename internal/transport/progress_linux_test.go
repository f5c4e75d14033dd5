package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// narrow listens with a receive buffer so small that what a slow reader has not
// read stays with the one who sends.
func narrow(t testing.TB, network, address string) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(descriptor uintptr) {
			failed = unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
		})
		return errors.Join(err, failed)
	}}
	listener, err := config.Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// sip reads little by little for a while, and then the rest of n bytes.
func sip(from io.Reader, n int, while time.Duration) {
	pause := time.NewTicker(40 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(while); n > 0 && time.Now().Before(end); <-pause.C {
		some, err := from.Read(make([]byte, min(4096, n)))
		if n -= some; err != nil {
			return
		}
	}
	_, _ = io.CopyN(io.Discard, from, int64(n))
}

const (
	sipIdle = time.Second
	sipTime = 2500 * time.Millisecond
)

// An endpoint that takes less than a socket's buffer in idle_timeout, and takes
// it steadily, is not idle.
func TestAnEndpointThatTakesLittle(t *testing.T) {
	const size = 400 << 10
	engines(t, func(t *bed) {
		t.Parallel()
		for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
			t.Run(network, func(t *bed) {
				t.Parallel()
				endpoint := serveOn(t, narrow(t, network, address), func(p *peer) {
					p.head()
					sip(p.Reader, size, sipTime)
					p.say(ok)
				})
				transport := watch(open(t, endpoint, setup{}), model.RouteTimeouts{Idle: sipIdle})
				body := bytes.NewReader(make([]byte, size))
				request := post(readerFunc(func(p []byte) (int, error) {
					transport.watch.Ask()
					n, err := body.Read(p)
					transport.watch.Given(n)
					return n, err
				}), size)
				if _, text := ask(t, transport, request); text != "ok" {
					t.Errorf("got %q", text)
				}
			})
		}
	})
}

// So is the endpoint of a tunnel; one that takes nothing is.
func TestTheEndpointOfATunnelThatTakesLittle(t *testing.T) {
	const size = 400 << 10
	engines(t, func(t *bed) {
		t.Parallel()
		for name, while := range map[string]time.Duration{"little": sipTime, "nothing": 0} {
			t.Run(name, func(t *bed) {
				t.Parallel()
				hold := make(chan struct{})
				defer close(hold)
				endpoint := serveOn(t, narrow(t, "tcp", "127.0.0.1:0"), func(p *peer) {
					p.head()
					p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
					if while == 0 {
						<-hold
						return
					}
					sip(p.Reader, size, while)
					p.say("done")
				})
				request := get("/")
				request.Fields = message.Fields{}
				request.Fields.Add("Connection", "upgrade")
				request.Fields.Add("Upgrade", "x")
				transport := watch(open(t, endpoint, setup{}), model.RouteTimeouts{Idle: sipIdle})
				response, err := trip(context.Background(), transport, request, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Tunnel.Close()
				for left := size; left > 0 && err == nil; {
					var n int
					n, err = response.Tunnel.Write(make([]byte, left))
					left -= n
				}
				if while == 0 {
					_, err = io.ReadAll(response.Tunnel)
					wantError(t, err, pipeline.UpstreamTimeout)
					return
				}
				var said strings.Builder
				if _, copied := io.CopyN(&said, response.Tunnel, 4); err != nil || copied != nil || said.String() != "done" {
					t.Errorf("%v, %q, %v", err, said.String(), copied)
				}
			})
		}
	})
}
