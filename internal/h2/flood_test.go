package h2_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/h2"
	"sluice/internal/waittest"
)

// TestFloods: what a client may do, but not so much of, ends its connection, with
// bounded memory and work; another client does not notice.
func TestFloods(t *testing.T) {
	const plenty = 200_000
	cases := []struct {
		name string
		deaf bool // the client reads nothing
		rule *h2.ProtocolError
		do   func(c *raw, i int) error
	}{
		{"rapid reset", false, h2.ErrRapidReset, func(c *raw, i int) error {
			id := uint32(2*i + 1)
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(post()...), EndHeaders: true})
			return c.WriteRSTStream(id, http2.ErrCodeCancel)
		}},
		{"resets that the server is made to send", false, h2.ErrRapidReset, func(c *raw, i int) error {
			id := uint32(2*i + 1)
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(post()...), EndHeaders: true})
			return c.WriteWindowUpdate(id, 0)
		}},
		{"malformed requests", false, h2.ErrRapidReset, func(c *raw, i int) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: c.encode("x-a: 1"), EndHeaders: true})
		}},
		{"streams past the limit", false, h2.ErrRapidReset, func(c *raw, i int) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: c.encode(post()...), EndHeaders: true})
		}},
		{"CONTINUATION without end", false, h2.ErrContinuations, func(c *raw, i int) error {
			if i == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...)})
			}
			return c.WriteContinuation(1, false, c.encode("x-a: 1"))
		}},
		{"empty CONTINUATION", false, h2.ErrContinuations, func(c *raw, i int) error {
			if i == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...)})
			}
			return c.WriteContinuation(1, false, nil)
		}},
		{"a block without end", false, h2.ErrHeaderBlock, func(c *raw, i int) error {
			if i == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...)})
			}
			return c.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 16<<10))
		}},
		{"a string without end", false, h2.ErrHeaderBlock, func(c *raw, i int) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: []byte{0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x0f}})
		}},
		{"PING", false, h2.ErrControlFlood, func(c *raw, _ int) error { return c.WritePing(false, [8]byte{}) }},
		{"PING, not read", true, h2.ErrReplyFlood, func(c *raw, _ int) error { return c.WritePing(false, [8]byte{}) }},
		{"SETTINGS", false, h2.ErrControlFlood, func(c *raw, _ int) error { return c.WriteSettings() }},
		{"large SETTINGS", false, h2.ErrControlFlood, func(c *raw, i int) error {
			settings := make([]http2.Setting, 2700)
			for j := range settings {
				settings[j] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i + j)}
			}
			return c.WriteSettings(settings...)
		}},
		{"PRIORITY", false, h2.ErrControlFlood, func(c *raw, i int) error {
			return c.WritePriority(uint32(2*i+1), http2.PriorityParam{StreamDep: 9_999_999})
		}},
		{"PRIORITY_UPDATE", false, h2.ErrControlFlood, func(c *raw, i int) error { return c.WritePriorityUpdate(uint32(2*i+1), "u=1") }},
		{"WINDOW_UPDATE", false, h2.ErrControlFlood, func(c *raw, _ int) error { return c.WriteWindowUpdate(0, 1) }},
		{"unknown frames", false, h2.ErrControlFlood, func(c *raw, _ int) error { return c.WriteRawFrame(0x77, 0, 0, nil) }},
		{"empty DATA", false, h2.ErrControlFlood, func(c *raw, i int) error {
			if i == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(post()...), EndHeaders: true})
			}
			return c.WriteData(1, false, nil)
		}},
		{"DATA of padding alone", false, h2.ErrControlFlood, func(c *raw, i int) error {
			if i == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(post()...), EndHeaders: true})
			}
			return c.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, []byte{0})
		}},
		{"RST_STREAM of a closed stream", false, h2.ErrControlFlood, func(c *raw, i int) error {
			if i == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...), EndHeaders: true})
			}
			return c.WriteRSTStream(1, http2.ErrCodeCancel)
		}},
		{"DATA of a closed stream", false, h2.ErrControlFlood, func(c *raw, i int) error {
			if i == 0 {
				_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...), EndHeaders: true})
				return c.WriteRSTStream(1, http2.ErrCodeCancel)
			}
			return c.WriteData(1, false, []byte("x"))
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var running, most atomic.Int64
			s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
				now := running.Add(1)
				defer running.Add(-1)
				for {
					if before := most.Load(); now <= before || most.CompareAndSwap(before, now) {
						break
					}
				}
				if r.Method == http.MethodPost {
					<-r.Context().Done()
					runtime.Gosched()
					return
				}
				echo(w, r)
			}), nil)
			other := s.dial(t)
			c := s.dial(t)
			if !tc.deaf {
				go func() {
					_, _ = io.Copy(io.Discard, c.conn)
					_ = c.conn.Close() // it has heard
				}()
			}
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			var peak uint64
			sent := 0
			for ; sent < plenty; sent++ {
				if tc.do(c, sent) != nil {
					break
				}
				if sent%1000 == 0 {
					var now runtime.MemStats
					runtime.ReadMemStats(&now)
					peak = max(peak, now.HeapInuse)
				}
			}
			if sent == plenty {
				t.Errorf("%d are taken", plenty)
			}
			_ = c.conn.Close()
			err := s.end(t)
			floods := []error{h2.ErrReplyFlood, h2.ErrControlFlood} // which of them comes first, the system's buffers decide
			if !slices.Contains(floods, err) || !slices.Contains(floods, error(tc.rule)) {
				rule(t, err, tc.rule)
			}
			if most.Load() > 250 {
				t.Errorf("%d handlers ran at once", most.Load())
			}
			if grown := int64(peak) - int64(before.HeapInuse); grown > 48<<20 {
				t.Errorf("memory grew by %d MiB", grown>>20)
			}
			other.open(1, true, get())
			if a := other.answer(1); a.status != "200" {
				t.Errorf("another client sees %v", a)
			}
		})
	}
}

// TestReplies: replies wait for a client that does not read only so long.
func TestReplies(t *testing.T) {
	near, far := net.Pipe() // no buffer between
	c := h2.NewConn(near, handler(echo))
	end := make(chan error)
	go func() { end <- c.Serve() }()
	client := newRaw(t, far)
	client.write(http2.ClientPreface)
	for range 1100 {
		if client.WritePing(false, [8]byte{}) != nil && client.WriteSettings() != nil {
			break
		}
	}
	_ = far.Close()
	if err := <-end; ruleOf(err) == nil {
		t.Error(err)
	}
}

// TestServedClientsAreNoFlood: who asks much and is served much may say much, and
// end much.
func TestServedClientsAreNoFlood(t *testing.T) {
	s := serve(t, handler(echo), nil)
	c := s.dial(t)
	for i := range 3000 {
		id := uint32(2*i + 1)
		c.open(id, true, get())
		c.must(c.WriteWindowUpdate(id, 1<<20))
		c.must(c.WritePriority(id, http2.PriorityParam{Weight: 3}))
		if i%3 == 0 {
			c.must(c.WriteRSTStream(id, http2.ErrCodeCancel))
		} else if a := c.answer(id); a.status != "200" {
			t.Fatalf("request %d: %v", i, a)
		}
	}
}

// TestTooLarge: a header list past the limits is answered, if it can be decoded.
func TestTooLarge(t *testing.T) {
	options := handler(echo)
	options.MaxHeaderBytes, options.MaxFields = 8<<10, 20
	s := serve(t, options, nil)
	c := s.dial(t)
	for i, tc := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"as many fields as may be", get(many(20)...), "200"},
		{"a field more", get(many(21)...), "431"},
		{"many fields more", get(many(200)...), "431"},
		{"a large one", get("x-a: " + strings.Repeat("x", 8<<10)), "431"},
		{"a large path", with(get(), ":path: /"+strings.Repeat("x", 8<<10)), "431"},
		{"afterwards", get("x-b: 1"), "200"},
	} {
		id := uint32(2*i + 1)
		block := c.encode(tc.lines...)
		piece := block[:min(len(block), 1000)]
		c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: piece, EndStream: true, EndHeaders: len(piece) == len(block)}))
		for block = block[len(piece):]; len(block) > 0; block = block[len(piece):] {
			piece = block[:min(len(block), 1000)]
			c.must(c.WriteContinuation(id, len(piece) == len(block), piece))
		}
		if a := c.answer(id); a.status != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, a, tc.want)
		}
	}
	// One handler of the caller's may tell it otherwise.
	options.Oversized = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.RequestURI, 400) })
	c = serve(t, options, nil).dial(t)
	c.open(1, true, get(many(21)...))
	if a := c.answer(1); a.status != "400" || a.body != "/\n" {
		t.Error(a)
	}
}

// TestConcurrency: no more handlers run than streams may be open, also when
// streams are reset whose handlers go on.
func TestConcurrency(t *testing.T) {
	let := make(chan struct{})
	var running, most atomic.Int64
	options := handler(func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		if r.Method == http.MethodPost {
			<-let // whatever the client does
		}
		echo(w, r)
	})
	options.MaxConcurrentStreams = 4
	s := serve(t, options, nil)
	c := s.dial(t)
	for id := uint32(1); id <= 7; id += 2 {
		c.open(id, false, post())
	}
	c.open(9, true, get())
	if a := c.answer(9); a.reset == nil || *a.reset != http2.ErrCodeRefusedStream {
		t.Fatalf("a stream past the limit: %v", a)
	}
	for id := uint32(1); id <= 7; id += 2 {
		c.must(c.WriteRSTStream(id, http2.ErrCodeCancel))
	}
	for id := uint32(11); id <= 17; id += 2 { // they wait for a handler
		c.open(id, true, get())
	}
	c.must(c.WriteRSTStream(13, http2.ErrCodeCancel)) // and this one never gets one
	server := s.each()[0]
	waittest.Until(t, "seven streams", func() bool { return server.Active() == 7 })
	if running.Load() != 4 {
		t.Errorf("%d handlers run", running.Load())
	}
	close(let)
	done := map[uint32]bool{}
	for len(done) < 3 {
		frame := c.next()
		head := frame.Header()
		if head.Type == http2.FrameData && head.Flags.Has(http2.FlagDataEndStream) {
			done[head.StreamID] = true
		}
	}
	if !done[11] || done[13] || !done[15] || !done[17] {
		t.Errorf("served %v", done)
	}
	if most.Load() > 4 {
		t.Errorf("%d handlers ran at once", most.Load())
	}
	waittest.Until(t, "an idle connection", func() bool { return server.Active() == 0 })
}

// TestBackPressure: what nobody reads is bounded by the windows, and what is read
// opens them.
func TestBackPressure(t *testing.T) {
	options := handler(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		if n, err := r.Body.Read(make([]byte, 10)); n != 0 || err == nil {
			t.Errorf("a broken body gives %d bytes, %v", n, err)
		}
	})
	options.StreamWindow, options.ConnWindow = 100<<10, 150<<10
	s := serve(t, options, nil)
	c := s.dial(t)
	c.settled()
	c.open(1, false, post())
	c.open(3, false, post())
	deadline := time.Now().Add(patience)
	_ = c.conn.SetDeadline(deadline)
	for range 9 { // 9 × 10 KiB of each: past what both together may
		for _, id := range []uint32{1, 3} {
			if c.WriteData(id, false, make([]byte, 10<<10)) != nil {
				break
			}
		}
	}
	if a := c.answer(0); a.away == nil || *a.away != http2.ErrCodeFlowControl {
		t.Error(a)
	}
}
