package h2_test

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"sluice/internal/h2"
)

func without(lines []string, name string) (left []string) {
	for _, line := range lines {
		if !strings.HasPrefix(line, name+": ") {
			left = append(left, line)
		}
	}
	return left
}

func with(lines []string, line string) []string {
	name, _, _ := strings.Cut(line[1:], ": ")
	return append([]string{line}, without(lines, line[:1]+name)...)
}

// TestRequests holds requests to RFC 9113 8: those that break a rule are reset, and
// the connection goes on.
func TestRequests(t *testing.T) {
	connect := []string{":method: CONNECT", ":authority: a.example:443"}
	websocket := append(get(), ":protocol: websocket")
	cases := []struct {
		name  string
		lines []string
		rule  *h2.ProtocolError // nil: it is served
	}{
		{"a request", get("x-a: 1", "te: trailers", "cookie: a=1"), nil},
		{"empty values", get("x-a: "), nil},
		{"high bytes in values", get("x-a: \xc3\xa4"), nil},
		{"tab inside", get("x-a: a\tb"), nil},
		{"upper case", get("X-A: 1"), h2.ErrFieldName},
		{"upper case inside", get("x-aB: 1"), h2.ErrFieldName},
		{"space in a name", get("x a: 1"), h2.ErrFieldName},
		{"newline in a name", get("x\n: 1"), h2.ErrFieldName},
		{"colon in a name", get("x:a: 1"), h2.ErrFieldName},
		{"high bytes in a name", get("x\xc3: 1"), h2.ErrFieldName},
		{"NUL", get("x-a: a\x00b"), h2.ErrFieldValue},
		{"CR", get("x-a: a\rb"), h2.ErrFieldValue},
		{"LF", get("x-a: a\nb"), h2.ErrFieldValue},
		{"DEL", get("x-a: a\x7fb"), h2.ErrFieldValue},
		{"leading space", get("x-a:  a"), h2.ErrFieldValue},
		{"trailing space", get("x-a: a "), h2.ErrFieldValue},
		{"leading tab", get("x-a: \ta"), h2.ErrFieldValue},
		{"trailing tab", get("x-a: a\t"), h2.ErrFieldValue},
		{"LF in a pseudo field", with(get(), ":path: /a\nb"), h2.ErrFieldValue},
		{"connection", get("connection: close"), h2.ErrConnField},
		{"keep-alive", get("keep-alive: 1"), h2.ErrConnField},
		{"proxy-connection", get("proxy-connection: close"), h2.ErrConnField},
		{"transfer-encoding", get("transfer-encoding: chunked"), h2.ErrConnField},
		{"upgrade", get("upgrade: h2c"), h2.ErrConnField},
		{"te", get("te: gzip"), h2.ErrConnField},
		{"te with more", get("te: trailers, gzip"), h2.ErrConnField},
		{"no method", without(get(), ":method"), h2.ErrPseudoField},
		{"no scheme", without(get(), ":scheme"), h2.ErrPseudoField},
		{"no path", without(get(), ":path"), h2.ErrPseudoField},
		{"no authority", without(get(), ":authority"), nil}, // the handler's to refuse
		{"two methods", append([]string{":method: GET"}, get()...), h2.ErrPseudoField},
		{"two paths", append([]string{":path: /"}, get()...), h2.ErrPseudoField},
		{"two authorities", append([]string{":authority: a.example"}, get()...), h2.ErrPseudoField},
		{"unknown", append(get(), ":x: 1"), h2.ErrPseudoField},
		{"of responses", append(get(), ":status: 200"), h2.ErrPseudoField},
		{"late", append(without(get(), ":path"), "x-a: 1", ":path: /"), h2.ErrPseudoField},
		{"empty method", with(get(), ":method: "), h2.ErrMethod},
		{"method with a space", with(get(), ":method: G T"), h2.ErrMethod},
		{"scheme", with(get(), ":scheme: ftp"), h2.ErrScheme},
		{"scheme in upper case", with(get(), ":scheme: HTTP"), h2.ErrScheme},
		{"empty path", with(get(), ":path: "), h2.ErrPath},
		{"relative path", with(get(), ":path: a"), h2.ErrPath},
		{"absolute form", with(get(), ":path: http://a/"), h2.ErrPath},
		{"space in a path", with(get(), ":path: /a b"), h2.ErrPath},
		{"bad escape", with(get(), ":path: /%zz"), nil}, // the handler's to refuse
		{"asterisk", with(get(), ":path: *"), h2.ErrPath},
		{"asterisk of OPTIONS", with(with(get(), ":path: *"), ":method: OPTIONS"), nil},
		{"userinfo", with(get(), ":authority: u@a.example"), h2.ErrAuthority},
		{"empty authority", with(get(), ":authority: "), h2.ErrAuthority},
		{"authority with a space", with(get(), ":authority: a b"), h2.ErrAuthority},
		{"equal host", get("host: A.example"), nil},
		{"equal host with the port", get("host: a.example:80"), nil},
		{"other host", get("host: b.example"), h2.ErrAuthority},
		{"other port", get("host: a.example:81"), h2.ErrAuthority},
		{"two hosts", without(get("host: a.example", "host: a.example"), ":authority"), h2.ErrAuthority},
		{"host alone", without(get("host: a.example"), ":authority"), nil},
		{"host with userinfo", without(get("host: u@a.example"), ":authority"), h2.ErrAuthority},
		{"length without content", get("content-length: 0"), nil},
		{"equal lengths", get("content-length: 0", "content-length: 0"), nil},
		{"length and no content", get("content-length: 5"), h2.ErrLength},
		{"negative length", get("content-length: -1"), h2.ErrLength},
		{"length with a sign", get("content-length: +0"), h2.ErrLength},
		{"no length", get("content-length: "), h2.ErrLength},
		{"huge length", get("content-length: 99999999999999999999"), h2.ErrLength},
		{"unequal lengths", get("content-length: 0", "content-length: 1"), h2.ErrLength},
		{"CONNECT", connect, nil},
		{"CONNECT with a path", append([]string{":path: /"}, connect...), h2.ErrPseudoField},
		{"CONNECT with a scheme", append([]string{":scheme: http"}, connect...), h2.ErrPseudoField},
		{"CONNECT without authority", connect[:1], h2.ErrPseudoField},
		{"extended CONNECT", with(websocket, ":method: CONNECT"), nil},
		{"extended CONNECT without a path", without(with(websocket, ":method: CONNECT"), ":path"), h2.ErrPseudoField},
		{"extended CONNECT without authority", without(with(websocket, ":method: CONNECT"), ":authority"), h2.ErrPseudoField},
		{"extended CONNECT of nothing", with(with(websocket, ":method: CONNECT"), ":protocol: "), h2.ErrPseudoField},
		{"a protocol of GET", websocket, h2.ErrPseudoField},
	}
	log := &rules{}
	options := handler(echo)
	options.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := serve(t, options, nil)
	c := s.dial(t)
	for i, tc := range cases {
		id := uint32(2*i + 1)
		c.open(id, true, tc.lines)
		a := c.answer(id)
		switch {
		case tc.rule == nil && a.status != "200":
			t.Errorf("%s: %v, want it served", tc.name, a)
		case tc.rule != nil && (a.reset == nil || *a.reset != tc.rule.Code || a.status != ""):
			t.Errorf("%s: %v, want RST_STREAM %v", tc.name, a, tc.rule.Code)
		case tc.rule != nil && !strings.Contains(log.take(), tc.rule.Rule):
			t.Errorf("%s: the log does not tell of %q", tc.name, tc.rule.Rule)
		}
	}
}

// rules keeps what was logged last.
type rules struct {
	mu   sync.Mutex
	text string
}

func (r *rules) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text += string(p)
	return len(p), nil
}

func (r *rules) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.text
	r.text = ""
	return text
}

// TestStreamRules: what a client does wrong on a stream resets that alone.
func TestStreamRules(t *testing.T) {
	priority := http2.PriorityParam{StreamDep: 1}
	cases := []struct {
		name string
		do   func(c *raw)
		code http2.ErrCode
	}{
		{"more than the length", func(c *raw) {
			c.open(1, false, post("content-length: 3"))
			c.must(c.WriteData(1, false, []byte("four")))
		}, http2.ErrCodeProtocol},
		{"less than the length", func(c *raw) {
			c.open(1, false, post("content-length: 3"))
			c.must(c.WriteData(1, true, []byte("no")))
		}, http2.ErrCodeProtocol},
		{"less, with trailers", func(c *raw) {
			c.open(1, false, post("content-length: 3"))
			c.open(1, true, []string{"x-a: 1"})
		}, http2.ErrCodeProtocol},
		{"content behind the end", func(c *raw) {
			c.open(1, true, post())
			c.must(c.WriteData(1, true, []byte("x")))
		}, http2.ErrCodeStreamClosed},
		{"fields behind the end", func(c *raw) {
			c.open(1, true, post())
			c.open(1, true, []string{"x-a: 1"})
		}, http2.ErrCodeStreamClosed},
		{"trailers that end nothing", func(c *raw) {
			c.open(1, false, post())
			c.open(1, false, []string{"x-a: 1"})
		}, http2.ErrCodeProtocol},
		{"pseudo fields in trailers", func(c *raw) {
			c.open(1, false, post())
			c.open(1, true, []string{":path: /"})
		}, http2.ErrCodeProtocol},
		{"connection fields in trailers", func(c *raw) {
			c.open(1, false, post())
			c.open(1, true, []string{"connection: close"})
		}, http2.ErrCodeProtocol},
		{"large trailers", func(c *raw) {
			c.open(1, false, post())
			c.open(1, true, many(120))
		}, http2.ErrCodeEnhanceYourCalm},
		{"more than the stream's window", func(c *raw) {
			c.open(1, false, post())
			for range 5 {
				c.must(c.WriteData(1, false, make([]byte, 16<<10)))
			}
		}, http2.ErrCodeFlowControl},
		{"a window past the maximum", func(c *raw) {
			c.open(1, false, post())
			c.must(c.WriteWindowUpdate(1, 1<<31-1))
		}, http2.ErrCodeFlowControl},
		{"a window by nothing", func(c *raw) {
			c.open(1, false, post())
			c.must(c.WriteWindowUpdate(1, 0))
		}, http2.ErrCodeProtocol},
		{"dependent on itself by HEADERS", func(c *raw) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...), EndHeaders: true, Priority: priority}))
		}, http2.ErrCodeProtocol},
		{"dependent on itself by PRIORITY", func(c *raw) {
			c.open(1, false, post())
			c.must(c.WritePriority(1, priority))
		}, http2.ErrCodeProtocol},
		{"dependent on itself by trailers", func(c *raw) {
			c.open(1, false, post())
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode("x-a: 1"), EndHeaders: true, EndStream: true, Priority: priority}))
		}, http2.ErrCodeProtocol},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			causes := make(chan error, 1)
			options := handler(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				causes <- contextCause(r)
			})
			options.StreamWindow = 1 // the least
			s := serve(t, options, nil)
			c := s.dial(t)
			tc.do(c)
			a := c.answer(1)
			if a.reset == nil || *a.reset != tc.code {
				t.Fatalf("%v, want RST_STREAM %v", a, tc.code)
			}
			if !strings.HasSuffix(tc.name, "by HEADERS") { // no handler saw it
				if cause := <-causes; ruleOf(cause) == nil || ruleOf(cause).Code != tc.code {
					t.Errorf("the request's context ended with %v", cause)
				}
			}
			c.must(c.WritePing(false, [8]byte{1}))
			for {
				frame, err := c.ReadFrame()
				c.must(err)
				if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
					return // the connection goes on
				}
			}
		})
	}
}

func ruleOf(err error) *h2.ProtocolError {
	var rule *h2.ProtocolError
	if errors.As(err, &rule) {
		return rule
	}
	return nil
}

// many are lines of fields.
func many(n int) (lines []string) {
	for range n {
		lines = append(lines, "x-a: 1")
	}
	return lines
}

// TestConnectionRules: what a client does wrong on the connection ends that, with
// a code and a rule.
func TestConnectionRules(t *testing.T) {
	cases := []struct {
		name string
		do   func(c *raw)
		rule *h2.ProtocolError
	}{
		{"not SETTINGS first", func(c *raw) { c.write(http2.ClientPreface); c.must(c.WritePing(false, [8]byte{})) }, h2.ErrPreface},
		{"SETTINGS that acknowledge first", func(c *raw) { c.write(http2.ClientPreface); c.must(c.WriteSettingsAck()) }, h2.ErrPreface},
		{"no preface", func(c *raw) { c.write("GET / HTTP/1.1\r\n\r\n") }, h2.ErrPreface},
		{"DATA on no stream", begun(func(c *raw) { c.must(c.WriteRawFrame(http2.FrameData, 0, 0, nil)) }), h2.ErrStreamID},
		{"DATA on an idle stream", begun(func(c *raw) { c.must(c.WriteData(1, true, nil)) }), h2.ErrStreamID},
		{"padding past DATA", begun(func(c *raw) {
			c.open(1, false, post())
			c.must(c.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, []byte{9, 1}))
		}), h2.ErrFrame},
		{"padding without DATA", begun(func(c *raw) {
			c.open(1, false, post())
			c.must(c.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, nil))
		}), h2.ErrFrameSize},
		{"padding past HEADERS", begun(func(c *raw) {
			c.must(c.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, 1, []byte{9, 1}))
		}), h2.ErrFrame},
		{"HEADERS too short for a priority", begun(func(c *raw) {
			c.must(c.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersPriority|http2.FlagHeadersEndHeaders, 1, []byte{1}))
		}), h2.ErrFrameSize},
		{"an even stream", begun(func(c *raw) { c.open(2, true, get()) }), h2.ErrStreamID},
		{"a stream from before", begun(func(c *raw) { c.open(5, true, get()); c.open(3, true, get()) }), h2.ErrStreamID},
		{"a closed stream", begun(func(c *raw) { c.open(1, true, get()); c.answer(1); c.open(1, true, get()) }), h2.ErrClosedStream},
		{"CONTINUATION of nothing", begun(func(c *raw) { c.must(c.WriteContinuation(1, true, nil)) }), h2.ErrFrame},
		{"a frame inside a block", begun(func(c *raw) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...)}))
			c.must(c.WritePing(false, [8]byte{}))
		}), h2.ErrFrame},
		{"a large frame", begun(func(c *raw) { c.must(c.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, 16<<10+1))) }), h2.ErrFrameSize},
		{"a short PING", begun(func(c *raw) { c.must(c.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, 7))) }), h2.ErrFrameSize},
		{"a PING of a stream", begun(func(c *raw) { c.must(c.WriteRawFrame(http2.FramePing, 0, 1, make([]byte, 8))) }), h2.ErrFrame},
		{"RST_STREAM of an idle stream", begun(func(c *raw) { c.must(c.WriteRSTStream(1, http2.ErrCodeCancel)) }), h2.ErrStreamID},
		{"PUSH_PROMISE", begun(func(c *raw) {
			c.must(c.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true}))
		}), h2.ErrPush},
		{"a window past the maximum", begun(func(c *raw) { c.must(c.WriteWindowUpdate(0, 1<<31-1)) }), h2.ErrWindow},
		{"a window by nothing", begun(func(c *raw) { c.must(c.WriteWindowUpdate(0, 0)) }), h2.ErrFrame},
		{"a window of an idle stream", begun(func(c *raw) { c.must(c.WriteWindowUpdate(1, 1)) }), h2.ErrStreamID},
		{"a window by nothing of an idle stream", begun(func(c *raw) { c.must(c.WriteWindowUpdate(1, 0)) }), h2.ErrWindowZero},
		{"PRIORITY of no stream", begun(func(c *raw) { c.must(c.WriteRawFrame(http2.FramePriority, 0, 0, make([]byte, 5))) }), h2.ErrFrame},
		{"PRIORITY_UPDATE of no stream", begun(func(c *raw) { c.must(c.WriteRawFrame(http2.FramePriorityUpdate, 0, 0, make([]byte, 4))) }), h2.ErrFrame},
		{"a short PRIORITY_UPDATE", begun(func(c *raw) { c.must(c.WriteRawFrame(http2.FramePriorityUpdate, 0, 0, make([]byte, 3))) }), h2.ErrFrameSize},
		{"ENABLE_PUSH", begun(setting(http2.SettingEnablePush, 2)), h2.ErrSetting},
		{"MAX_FRAME_SIZE", begun(setting(http2.SettingMaxFrameSize, 100)), h2.ErrSetting},
		{"ENABLE_CONNECT_PROTOCOL", begun(setting(http2.SettingEnableConnectProtocol, 2)), h2.ErrSetting},
		{"NO_RFC7540_PRIORITIES", begun(setting(http2.SettingNoRFC7540Priorities, 2)), h2.ErrSetting},
		{"INITIAL_WINDOW_SIZE", begun(setting(http2.SettingInitialWindowSize, 1<<31)), h2.ErrWindow},
		{"INITIAL_WINDOW_SIZE said again", begun(func(c *raw) {
			c.must(c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}))
		}), h2.ErrWindow},
		{"INITIAL_WINDOW_SIZE past a stream's window", begun(func(c *raw) {
			c.open(1, false, post())
			c.must(c.WriteWindowUpdate(1, 1<<30))
			setting(http2.SettingInitialWindowSize, 1<<31-1)(c)
		}), h2.ErrWindow},
		{"SETTINGS that acknowledge with content", begun(func(c *raw) { c.must(c.WriteRawFrame(http2.FrameSettings, http2.FlagSettingsAck, 0, make([]byte, 6))) }), h2.ErrFrameSize},
		{"an index of nothing", begun(func(c *raw) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0x7f}, EndHeaders: true}))
		}), h2.ErrCompression},
		{"a field cut off", begun(func(c *raw) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x00, 0x05, 'a'}, EndHeaders: true}))
		}), h2.ErrCompression},
		{"a table past its size", begun(func(c *raw) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x3f, 0xff, 0x7f}, EndHeaders: true}))
		}), h2.ErrCompression},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					<-r.Context().Done()
				}
				echo(w, r)
			}), nil)
			c := s.connect(t)
			tc.do(c)
			a := c.answer(0)
			if a.away == nil || *a.away != tc.rule.Code || a.debug != tc.rule.Rule {
				t.Errorf("%v, want GOAWAY %v", a, tc.rule)
			}
			if _, err := c.ReadFrame(); !errors.Is(err, io.EOF) {
				t.Errorf("the connection does not end: %v", err)
			}
			_ = c.conn.Close()
			rule(t, s.end(t), tc.rule)
		})
	}
}

func begun(do func(c *raw)) func(c *raw) {
	return func(c *raw) {
		c.write(http2.ClientPreface)
		c.must(c.WriteSettings())
		do(c)
	}
}

func setting(id http2.SettingID, value uint32) func(c *raw) {
	return func(c *raw) { c.must(c.WriteSettings(http2.Setting{ID: id, Val: value})) }
}

// TestWhatIsPassedOver: frames that mean nothing here, and those that were under
// way.
func TestWhatIsPassedOver(t *testing.T) {
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			panic(http.ErrAbortHandler)
		}
		echo(w, r)
	}), nil)
	c := s.dial(t)
	c.must(c.WriteRawFrame(0x42, 0xff, 77, []byte("unknown")))
	c.must(c.WritePriority(7, http2.PriorityParam{StreamDep: 3}))
	c.must(c.WritePriorityUpdate(5, "u=1, i"))
	c.must(c.WritePriorityUpdate(5, "~"))
	c.must(c.WriteSettings(http2.Setting{ID: 0x99, Val: 1}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0}))
	c.must(c.WriteRawFrame(http2.FrameGoAway, 0, 0, binary.BigEndian.AppendUint32(make([]byte, 4), 0)))
	c.open(1, false, post())
	if a := c.answer(1); a.reset == nil || *a.reset != http2.ErrCodeInternal {
		t.Fatal(a)
	}
	// The client may not know of the reset.
	c.must(c.WriteData(1, false, []byte("late")))
	c.must(c.WriteWindowUpdate(1, 1))
	c.must(c.WriteWindowUpdate(1, 0))
	c.open(1, true, []string{"x-a: 1"})
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	c.open(3, true, get())
	if a := c.answer(3); a.status != "200" || a.body != "GET /" {
		t.Error(a)
	}
	// DATA of a stream that both sides have ended is no such.
	c.must(c.WriteData(3, true, []byte("late")))
	if a := c.answer(3); a.reset == nil || *a.reset != http2.ErrCodeStreamClosed {
		t.Error(a)
	}
}
