package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// framer is an endpoint's side of an HTTP/2 connection, frame by frame.
type framer struct {
	*http2.Framer
	conn  net.Conn
	block bytes.Buffer
	table *hpack.Encoder
}

// framed starts an endpoint in clear whose connections have sent their SETTINGS
// and read those of the other side. Errors of script's writes are of no interest.
func framed(t testing.TB, settings []http2.Setting, script func(f *framer)) model.Endpoint {
	t.Helper()
	return scripted(t, func(p *peer) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(p, preface); err != nil {
			return
		}
		f := &framer{Framer: http2.NewFramer(p.Conn, p), conn: p.Conn}
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		f.table = hpack.NewEncoder(&f.block)
		_ = f.WriteSettings(settings...)
		script(f)
	})
}

// next reads up to a request's head, and answers what must be; 0 at the end.
func (f *framer) next() (stream uint32, head *http2.MetaHeadersFrame) {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return 0, nil
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.StreamID, frame
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = f.WritePing(true, frame.Data)
			}
		}
	}
}

// rest reads up to the end of the connection.
func (f *framer) rest() {
	for {
		if stream, _ := f.next(); stream == 0 {
			return
		}
	}
}

// head writes a head; fields are names and values in turn.
func (f *framer) head(stream uint32, end bool, fields ...string) {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = f.table.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.block.Bytes(), EndStream: end, EndHeaders: true})
}

func (f *framer) ok(stream uint32) {
	f.head(stream, false, ":status", "200", "content-length", "2")
	_ = f.WriteData(stream, true, []byte("ok"))
}

// h2c is a transport in clear over HTTP/2.
func h2c(t *bed, endpoint model.Endpoint, s setup) pipeline.Transport {
	t.Helper()
	return reach(t, &model.Upstream{Protocol: model.UpstreamH2C, Pool: s.pool, Timeouts: s.timeouts}, endpoint, s.observer)
}

// read does an attempt and reads its response to the end.
func read(ctx context.Context, transport pipeline.Transport, request *message.Request) (response *message.Response, body string, err error) {
	response, err = trip(ctx, transport, request, nil)
	if err != nil || response.Body == nil {
		return response, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response, string(data), err
}

// What an endpoint does wrong, by whose fault it is told.
func TestFaultsOverHTTP2(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(f *framer, stream uint32)
		word   pipeline.Word
		unsent bool
	}{
		{"reset", func(f *framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeInternal) }, pipeline.UpstreamReset, false},
		{"refused", func(f *framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, pipeline.UpstreamReset, true},
		{"reset in the body", func(f *framer, s uint32) {
			f.head(s, false, ":status", "200")
			_ = f.WriteData(s, false, []byte("some"))
			_ = f.WriteRSTStream(s, http2.ErrCodeCancel)
		}, pipeline.UpstreamReset, false},
		{"closed", func(f *framer, _ uint32) { _ = f.conn.Close() }, pipeline.UpstreamReset, false},
		{"closed in the body", func(f *framer, s uint32) { f.head(s, false, ":status", "200"); _ = f.conn.Close() }, pipeline.UpstreamReset, false},
		{"away and closed", func(f *framer, s uint32) {
			_ = f.WriteGoAway(s, http2.ErrCodeInternal, nil)
			_ = f.conn.Close()
		}, pipeline.UpstreamReset, false},
		{"short body", func(f *framer, s uint32) {
			f.head(s, false, ":status", "200", "content-length", "10")
			_ = f.WriteData(s, true, []byte("short"))
		}, pipeline.UpstreamReset, false},
		{"no body", func(f *framer, s uint32) { f.head(s, true, ":status", "200", "content-length", "10") }, pipeline.UpstreamReset, false},
		{"long body", func(f *framer, s uint32) {
			f.head(s, false, ":status", "200", "content-length", "2")
			_ = f.WriteData(s, true, []byte("too long"))
		}, pipeline.UpstreamProtocol, false},
		{"no status", func(f *framer, s uint32) { f.head(s, true, "a", "b") }, pipeline.UpstreamProtocol, false},
		{"bad status", func(f *framer, s uint32) { f.head(s, true, ":status", "abc") }, pipeline.UpstreamProtocol, false},
		{"status 600", func(f *framer, s uint32) { f.head(s, true, ":status", "600") }, pipeline.UpstreamProtocol, false},
		{"status 101", func(f *framer, s uint32) { f.head(s, false, ":status", "101") }, pipeline.UpstreamProtocol, false},
		{"upper case", func(f *framer, s uint32) { f.head(s, true, ":status", "200", "Upper", "x") }, pipeline.UpstreamProtocol, false},
		{"bad value", func(f *framer, s uint32) { f.head(s, true, ":status", "200", "a", "b\nc") }, pipeline.UpstreamProtocol, false},
		{"large head", func(f *framer, s uint32) {
			f.block.Reset()
			_ = f.table.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			for range 40 {
				_ = f.table.WriteField(hpack.HeaderField{Name: "a", Value: strings.Repeat("x", 10<<10)})
			}
			data := f.block.Bytes()
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: data[:16000], EndStream: true})
			for data = data[16000:]; len(data) > 16000; data = data[16000:] {
				_ = f.WriteContinuation(s, false, data[:16000])
			}
			_ = f.WriteContinuation(s, true, data)
		}, pipeline.UpstreamProtocol, false},
		{"many heads", func(f *framer, s uint32) {
			for range 100 {
				f.head(s, false, ":status", "103", "link", "</a>")
			}
		}, pipeline.UpstreamProtocol, false},
		{"data first", func(f *framer, s uint32) { _ = f.WriteData(s, true, []byte("x")) }, pipeline.UpstreamProtocol, false},
		{"push", func(f *framer, s uint32) {
			_ = f.WritePushPromise(http2.PushPromiseParam{StreamID: s, PromiseID: 2, EndHeaders: true, BlockFragment: nil})
		}, pipeline.UpstreamProtocol, false},
		{"nonsense", func(f *framer, _ uint32) { _, _ = f.conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) }, pipeline.UpstreamProtocol, false},
	} {
		each(t, func(t *bed) {
			var n counts
			endpoint := framed(t, nil, func(f *framer) {
				for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
					c.answer(f, stream)
				}
			})
			transport := h2c(t, endpoint, setup{observer: n.observer()})
			for range 2 {
				_, _, err := read(t.Context(), transport, get("/"))
				e := wantError(t, err, c.word)
				if e.Unsent != c.unsent {
					t.Errorf("%s: %v, unsent %v", c.name, err, e.Unsent)
				}
			}
			release(transport)
			waittest.Until(t, c.name+": all connections are closed", func() bool { return n.opened.Load() == n.closed.Load() })
		})
	}
}

// release releases a transport early.
func release(transport pipeline.Transport) {
	switch outer := transport.(type) {
	case byTasks:
		transport = outer.transport
	case careful:
		transport = outer.transport
	}
	transport.(interface{ Release() }).Release()
}

// What an endpoint says after a whole response changes nothing about it.
func TestResetsAfterTheEnd(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := framed(t, nil, func(f *framer) {
			for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
				f.ok(stream)
				_ = f.WriteRSTStream(stream, http2.ErrCodeNo)
			}
		})
		transport := h2c(t, endpoint, setup{})
		for range 10 {
			body, client := io.Pipe() // its end comes with the test's
			t.Cleanup(func() { _ = client.Close() })
			request := post(body, message.Unknown)
			request.Body = body
			if _, got, err := read(t.Context(), transport, request); got != "ok" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		}
	})
}

// GOAWAY lets what is under way end, and everything else go elsewhere.
func TestConnectionsRunOut(t *testing.T) {
	each(t, func(t *bed) {
		proceed := make(chan struct{})
		var connections atomic.Int64
		endpoint := framed(t, nil, func(f *framer) {
			n := connections.Add(1)
			stream, _ := f.next()
			if n > 1 {
				f.ok(stream)
				f.rest()
				return
			}
			f.head(stream, false, ":status", "200")
			_ = f.WriteData(stream, false, []byte("a"))
			_ = f.WriteGoAway(stream, http2.ErrCodeNo, nil)
			<-proceed
			_ = f.WriteData(stream, true, []byte("b"))
			f.rest()
		})
		var c counts
		transport := h2c(t, endpoint, setup{observer: c.observer(), pool: model.Pool{MaxConnections: 1, MaxPending: 1}})
		response, err := trip(t.Context(), transport, get("/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "another goes elsewhere", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, body, err := read(ctx, transport, get("/"))
			return err == nil && body == "ok"
		})
		close(proceed)
		if body := drain(t, response); body != "ab" {
			t.Errorf("got %q", body)
		}
		waittest.Until(t, "the first is closed", func() bool { return c.closed.Load() == 1 })
	})
}

// An endpoint that has gone silent is noticed, and what is asked goes elsewhere.
func TestDeadConnectionsAreNoticed(t *testing.T) {
	each(t, func(t *bed) {
		var connections atomic.Int64
		silent := make(chan struct{})
		endpoint := framed(t, nil, func(f *framer) {
			if connections.Add(1) == 1 {
				stream, _ := f.next()
				f.ok(stream)
				<-silent // not even pings
				return
			}
			for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
				f.ok(stream)
			}
		})
		t.Cleanup(func() { close(silent) })
		raw, ok := acquired(t, &model.Upstream{Protocol: model.UpstreamH2C}, endpoint, Observer{}).(*sharing)
		if !ok {
			t.Fatal("it is another transport")
		}
		raw.patience = patience{rest: 50 * time.Millisecond, doubt: 50 * time.Millisecond, answer: 50 * time.Millisecond}
		transport := by(t.own, raw)
		ask(t, transport, get("/"))
		waittest.Until(t, "it is closed", func() bool {
			raw.mu.Lock()
			defer raw.mu.Unlock()
			return len(raw.sessions) == 0
		})
		ask(t, transport, get("/"))
		if n := connections.Load(); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// An attempt over a connection that turns out to be dead is sent again.
func TestDeadConnectionsUnderAttempts(t *testing.T) {
	each(t, func(t *bed) {
		var connections atomic.Int64
		silent := make(chan struct{})
		endpoint := framed(t, nil, func(f *framer) {
			first := connections.Add(1) == 1
			for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
				f.ok(stream)
				if first {
					<-silent
					return
				}
			}
		})
		t.Cleanup(func() { close(silent) })
		raw, ok := acquired(t, &model.Upstream{Protocol: model.UpstreamH2C}, endpoint, Observer{}).(*sharing)
		if !ok {
			t.Fatal("it is another transport")
		}
		raw.patience = patience{rest: time.Hour, doubt: time.Nanosecond, answer: 50 * time.Millisecond}
		transport := by(t.own, raw)
		ask(t, transport, get("/"))
		// A question that is still being answered would stand for the next one.
		waittest.Until(t, "no question is open", func() bool {
			raw.mu.Lock()
			defer raw.mu.Unlock()
			return !slices.ContainsFunc(raw.sessions, func(s *session) bool { return s.pinging.Load() })
		})
		ask(t, transport, get("/"))
		request := get("/")
		request.Method = "POST"
		ask(t, transport, request)
		if n := connections.Load(); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// An endpoint that takes nothing of the body, and a client that leaves.
func TestBodiesThatDoNotFlow(t *testing.T) {
	each(t, func(t *bed) {
		reset := make(chan http2.ErrCode, 1)
		arrived := make(chan struct{}, 10)
		endpoint := framed(t, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, func(f *framer) {
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				switch frame := frame.(type) {
				case *http2.MetaHeadersFrame:
					arrived <- struct{}{}
				case *http2.RSTStreamFrame:
					reset <- frame.ErrCode
				}
			}
		})
		transport := h2c(t, endpoint, setup{})
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() {
			_, _, err := read(ctx, transport, post(bytes.NewReader(make([]byte, 1<<20)), 1<<20))
			done <- err
		}()
		waittest.Receive(t, "the head", arrived)
		cancel(errOver)
		if err := waittest.Receive(t, "the end", done); !errors.Is(err, errOver) {
			t.Errorf("got %v", err)
		}
		if code := waittest.Receive(t, "the reset", reset); code != http2.ErrCodeCancel {
			t.Errorf("reset by %v", code)
		}
		w := watch(transport, model.RouteTimeouts{Response: 30 * time.Millisecond})
		w.watch.Sent(time.Now())
		wantError(t, fails(t.Context(), t, w, post(bytes.NewReader(make([]byte, 1<<20)), 1<<20)), pipeline.UpstreamTimeout)
	})
}

// The time for the head of a response begins with the end of the request.
func TestResponsesOverHTTP2TakeNoLonger(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := framed(t, nil, func(f *framer) { f.rest() })
		transport := h2c(t, endpoint, setup{timeouts: model.AttemptTimeouts{ResponseHeader: 30 * time.Millisecond}})
		e := wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamTimeout)
		if !strings.Contains(e.Error(), "30ms") {
			t.Error(&e)
		}
	})
}

// A client that breaks off its request ends the attempt by its fault.
func TestClientsThatBreakOffOverHTTP2(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := framed(t, nil, func(f *framer) { f.rest() })
		transport := h2c(t, endpoint, setup{})
		body := io.MultiReader(strings.NewReader("some"), breaking{io.ErrUnexpectedEOF})
		wantError(t, fails(t.Context(), t, transport, post(body, 100)), pipeline.ClientClosed)
		body = io.MultiReader(strings.NewReader("some"), breaking{pipeline.NewError(pipeline.BodyTooLarge, nil)})
		wantError(t, fails(t.Context(), t, transport, post(body, message.Unknown)), pipeline.BodyTooLarge)
		wantError(t, fails(t.Context(), t, transport, post(strings.NewReader("short"), 100)), pipeline.ClientClosed)
	})
}

type breaking struct{ err error }

func (b breaking) Read([]byte) (int, error) { return 0, b.err }

// Fields behind a request's body need no announcement.
func TestTrailersNeedNoAnnouncement(t *testing.T) {
	each(t, func(t *bed) {
		got := make(chan string, 1)
		endpoint := framed(t, nil, func(f *framer) {
			for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
				_, trailer := f.next()
				if trailer == nil {
					return
				}
				var all []string
				for _, field := range trailer.Fields {
					all = append(all, field.Name+": "+field.Value)
				}
				got <- strings.Join(all, ", ")
				f.head(stream, false, ":status", "200")
				_ = f.WriteData(stream, false, []byte("ok"))
				f.head(stream, true, "grpc-status", "0", "x-other", "1")
			}
		})
		transport := h2c(t, endpoint, setup{})
		for _, length := range []int64{4, message.Unknown} {
			request := post(strings.NewReader("body"), length)
			request.Trailer = func() message.Fields { return message.Fields{{Name: "Grpc-Status", Value: "7"}} }
			response, body := ask(t, transport, request)
			if trailer := waittest.Receive(t, "a trailer", got); trailer != "grpc-status: 7" || body != "ok" {
				t.Errorf("the endpoint got %q", trailer)
			}
			if trailer := fieldText(response.Trailer()); trailer != "Grpc-Status: 0\nX-Other: 1" {
				t.Errorf("got %q", trailer)
			}
		}
	})
}

// Settings that change all the time harm nobody.
func TestEndpointsThatChangeSettings(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := framed(t, nil, func(f *framer) {
			for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
				for i := range uint32(50) {
					_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1 + i%3}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000 * i})
				}
				f.ok(stream)
			}
		})
		transport := h2c(t, endpoint, setup{})
		for range 5 {
			if _, body := ask(t, transport, post(bytes.NewReader(make([]byte, 200)), 200)); body != "ok" {
				t.Errorf("got %q", body)
			}
		}
	})
}
