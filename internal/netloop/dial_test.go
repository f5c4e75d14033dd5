//go:build unix

package netloop

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sluice/internal/sockettest"
)

func TestDialFails(t *testing.T) {
	refusing := listen(t, "tcp")
	_ = refusing.Close()
	full := sockettest.FullQueue(t)
	for _, test := range []struct {
		name, network, address string
		within                 time.Duration
		want                   error
	}{
		{"refused", "tcp", refusing.Addr().String(), 0, syscall.ECONNREFUSED},
		{"time-out", "tcp", full, 30 * time.Millisecond, os.ErrDeadlineExceeded},
		{"no socket at the path", "unix", filepath.Join(t.TempDir(), "none"), 0, syscall.ENOENT},
		{"path too long", "unix", "/" + string(make([]byte, 300)), 0, nil},
		{"a name", "tcp", "localhost:80", 0, nil},
		{"no port", "tcp", "127.0.0.1", 0, nil},
		{"no such zone", "tcp", "[fe80::1%nowhere]:80", 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachTask(t, func(b *bed, x Executor) {
				t := b.t
				var deadline time.Time
				if test.within > 0 {
					deadline = time.Now().Add(test.within)
				}
				c, err := x.Dial(context.Background(), test.network, test.address, deadline)
				if err == nil {
					_ = c.Close()
					t.Error("it connects")
				}
				if test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("dial: %v, want %v", err, test.want)
				}
				var told *net.OpError
				if test.want != nil && (!errors.As(err, &told) || told.Op != "dial") {
					t.Errorf("%T does not say that it is of dialing", err)
				}
			})
		})
	}
}

func TestDialIPv6(t *testing.T) {
	listening, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here:", err)
	}
	defer func() { _ = listening.Close() }()
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		c, err := x.Dial(context.Background(), "tcp", listening.Addr().String(), time.Time{})
		if err != nil {
			t.Errorf("dial: %v", err)
			return
		}
		defer func() { _ = c.Close() }()
		if got := c.RemoteAddr().String(); got != listening.Addr().String() {
			t.Errorf("remote %s", got)
		}
	})
}
