package h2_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/h2"
)

// TestQueue: streams wait for the connection's window in turn; who leaves the
// queue, from wherever, holds up nobody.
func TestQueue(t *testing.T) {
	const size = 40 << 10
	ends := make(chan error, 10)
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		}
		n, err := io.WriteString(w, strings.Repeat(r.URL.Path[1:2], size))
		if n == size && err == nil {
			return
		}
		ends <- err
	}), nil)
	c := s.dial(t)
	c.must(c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
	begun := map[uint32]bool{}
	open := func(id uint32, path string) {
		c.open(id, true, with(get(), ":path: "+path))
		for !begun[id] {
			frame := c.next()
			if head := frame.Header(); head.Type == http2.FrameHeaders || head.Type == http2.FrameData {
				begun[head.StreamID] = true
			}
		}
	}
	for i, path := range []string{"/1", "/2", "/3", "/late", "/5", "/6"} { // 64 KiB go to the first two
		open(uint32(2*i+1), path)
	}
	if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) { // from the middle
		t.Error(err)
	}
	for _, id := range []uint32{5, 11, 3} { // one in the middle, the last, the first that waits
		c.must(c.WriteRSTStream(id, http2.ErrCodeCancel))
		var reset *h2.ResetError
		if err := <-ends; !errors.As(err, &reset) {
			t.Error(err)
		}
	}
	c.must(c.WriteWindowUpdate(0, 1<<20))
	if a := c.answer(9); len(a.body) != size || strings.Trim(a.body, "5") != "" {
		t.Errorf("%d bytes: %v", len(a.body), a)
	}
}

// TestRoom: heads wait as well for a client that reads nothing: 13 of them fill the
// buffer that is written, and 13 the one behind it.
func TestRoom(t *testing.T) {
	near, far := net.Pipe()
	told := make(chan error, 1)
	server := h2.NewConn(near, handler(func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		w.Header().Set("Link", strings.Repeat("~", 10<<10))
		for range 100 { // a MiB of hints
			w.WriteHeader(http.StatusEarlyHints)
		}
		told <- rc.Flush()
	}))
	end := make(chan error)
	go func() { end <- server.Serve() }()
	c := newRaw(t, far)
	c.write(http2.ClientPreface)
	c.must(c.WriteSettings())
	c.open(1, true, get())
	if err := <-told; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	a := c.answer(1)
	if a.reset == nil || *a.reset != http2.ErrCodeInternal || len(a.interim) == 0 || len(a.interim) > 26 {
		t.Errorf("%v after %d hints", a, len(a.interim))
	}
	_ = far.Close()
	if err := <-end; err != nil && !errors.Is(err, h2.ErrClosed) {
		t.Error(err)
	}
}
